"""Where do the gradients of a parameter group lie?

In one flat buffer for each dtype of its weights. Every parameter's gradient is a view of it: backwards add
into it, and a collective takes a contiguous piece.

    | bucket 0             | bucket 1             |      equal buckets; the end is padding
    | shard 0 | shard 1 ...| shard 0 | shard 1 ...|      every member owns the same piece of each bucket
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import torch
from torch import Tensor, nn

from executor.errors import ExecutorError

Leaves = Sequence[nn.Parameter]
"""Copies of one parameter on this rank; they share weights and gradients."""


class Layout:
    """Offsets of parameters, buckets and shards in a flat buffer; `members` is 1 where nothing is sharded."""

    def __init__(self, shapes: Sequence[torch.Size], *, buckets: int, members: int = 1) -> None:
        self.shapes = tuple(shapes)
        self.offsets: list[int] = []
        self.used = 0
        """Elements without the padding."""
        for shape in shapes:
            self.offsets.append(self.used)
            self.used += prod(shape)
        self.buckets = buckets
        self.members = members
        self.shard_length = -(-self.used // (buckets * members))
        self.bucket_length = self.shard_length * members
        self.length = self.bucket_length * buckets

    def bucket(self, number: int) -> slice:
        """Elements of a bucket."""
        return slice(number * self.bucket_length, (number + 1) * self.bucket_length)

    def shard(self, bucket: int, member: int) -> slice:
        """Elements of a bucket that a member owns."""
        start = bucket * self.bucket_length + member * self.shard_length
        return slice(start, start + self.shard_length)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Each parameter's part of a flat buffer, in its own shape."""
        return [
            flat[offset : offset + prod(shape)].view(shape)
            for offset, shape in zip(self.offsets, self.shapes, strict=True)
        ]


class FlatGradients:
    """The gradients of weights of one dtype.

    Weights of the buffer's dtype have a view of it as `.grad`. Others (low precision, added up in float32)
    lose their `.grad` into it as soon as a backward has made one.
    """

    def __init__(self, leaves: Mapping[str, Leaves], *, layout: Layout, dtype: torch.dtype) -> None:
        self.names = tuple(leaves)
        self.layout = layout
        self.leaves = {name: list(copies) for name, copies in leaves.items()}
        device = next(iter(leaves.values()))[0].device
        self.flat = torch.zeros(layout.length, dtype=dtype, device=device)
        self.views = dict(zip(self.names, layout.views(self.flat), strict=True))
        for name, copies in self.leaves.items():
            for leaf in copies:
                self._attach(name, leaf)

    def move_to(self, leaves: Mapping[str, nn.Parameter]) -> None:
        """Let new leaves (a new weight version) add into the same buffer; older ones go on doing so."""
        for name in self.names:
            if leaves[name] is not self.leaves[name][0]:
                self.leaves[name][0] = leaves[name]
                self._attach(name, leaves[name])

    def zero(self) -> None:
        """Forget all gradients."""
        self.flat.zero_()

    def check(self) -> None:
        """Before the collectives: raises ExecutorError where a gradient has left the buffer."""
        for name, copies in self.leaves.items():
            view = self.views[name]
            for leaf in copies:
                if leaf.grad is view:
                    continue
                if leaf.dtype == view.dtype:
                    raise ExecutorError(
                        f"the gradient of {name} was replaced during the iteration: leave .grad as it "
                        "is, and use hooks that change it in place"
                    )
                if leaf.grad is not None:
                    _add_up(view, leaf)

    def _attach(self, name: str, leaf: nn.Parameter) -> None:
        if leaf.dtype == self.flat.dtype:
            leaf.grad = self.views[name]
        else:
            hook = partial(_add_up, self.views[name])
            leaf.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]


def _add_up(view: Tensor, leaf: Tensor) -> None:
    if leaf.grad is not None:
        view.add_(leaf.grad)
        leaf.grad = None
