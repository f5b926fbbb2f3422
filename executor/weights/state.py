"""What does one rank keep for a parameter group: its weights, gradients and optimizer?

Copies of a parameter on one rank (tied ends, or replicas of a stage) share their weights, gradients and
optimizer state, so that they are added up, synchronised, counted and stepped once.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from executor.weights.gradients import FlatGradients, Layout, Leaves
from executor.weights.precision import Numerics
from executor.weights.shards import Shard, ShardedSteps
from executor.weights.steps import OptimizerFactory, Steps, WholeSteps


class GroupState:
    """One parameter group on one rank; empty where all of its parameters are frozen."""

    def __init__(
        self,
        leaves: Mapping[str, Leaves],
        *,
        optimizer: OptimizerFactory,
        numerics: Numerics,
        buckets: int = 1,
        shard: Shard | None = None,
    ) -> None:
        self.buckets = buckets
        self.shard = shard
        self.flats = [
            _flat(part, numerics=numerics, buckets=buckets, shard=shard) for part in _by_dtype(leaves)
        ]
        _share_weights(leaves)
        self.steps: Steps | None = None
        if self.flats and shard is not None:
            self.steps = ShardedSteps(self.flats, optimizer=optimizer, numerics=numerics, shard=shard)
        elif self.flats:
            self.steps = WholeSteps(self.flats, optimizer=optimizer, numerics=numerics)

    @property
    def names(self) -> tuple[str, ...]:
        """Parameters that are trained, one after the other."""
        return tuple(name for flat in self.flats for name in flat.names)

    @property
    def leaves(self) -> dict[str, nn.Parameter]:
        """The first copy of each parameter that is trained."""
        return {name: copies[0] for flat in self.flats for name, copies in flat.leaves.items()}

    @property
    def flat_weights(self) -> list[Tensor]:
        """The buffers that hold all weights, where sharded."""
        return self.steps.weights if isinstance(self.steps, ShardedSteps) else []

    def zero(self) -> None:
        """Forget all gradients."""
        for flat in self.flats:
            flat.zero()

    def step(self, factor: float = 1.0) -> None:
        """Multiply the gradients by `factor`, and step the weights."""
        if self.steps is not None:
            self.steps.step(factor)

    def move_to(self, leaves: Mapping[str, nn.Parameter]) -> None:
        """Train other leaves, which hold the same weights; older ones keep adding to the gradients."""
        for flat in self.flats:
            flat.move_to(leaves)
        if self.steps is not None:
            self.steps.move_to(leaves)

    def set_masters(self, weights: Mapping[str, Tensor]) -> None:
        """Take the masters of a mixed run from weights of a higher precision, by name."""
        if self.steps is not None:
            self.steps.set_masters(weights)

    def gradients(self) -> dict[str, Tensor]:
        """By name: views, of this rank's shard alone where sharded (the rest is not synchronised)."""
        return {name: view for flat in self.flats for name, view in flat.views.items()}

    def squared_norm(self) -> Tensor:
        """Of the gradients that this rank owns, summed in float64 (a scalar)."""
        total = torch.zeros((), dtype=torch.float64)
        for flat in self.flats:
            for piece in _owned(flat, self.shard):
                norm = torch.linalg.vector_norm(piece, dtype=torch.float64)
                total = total.to(norm.device) + norm * norm
        return total


def _owned(flat: FlatGradients, shard: Shard | None) -> Iterable[Tensor]:
    if shard is None:
        return [flat.flat]
    return [flat.flat[flat.layout.shard(bucket, shard.member)] for bucket in range(flat.layout.buckets)]


def _by_dtype(leaves: Mapping[str, Leaves]) -> list[dict[str, Leaves]]:
    parts: dict[torch.dtype, dict[str, Leaves]] = {}
    for name, copies in leaves.items():
        parts.setdefault(copies[0].dtype, {})[name] = copies
    return list(parts.values())


def _flat(
    leaves: Mapping[str, Leaves], *, numerics: Numerics, buckets: int, shard: Shard | None
) -> FlatGradients:
    shapes = [copies[0].shape for copies in leaves.values()]
    dtype = next(iter(leaves.values()))[0].dtype
    members = 1 if shard is None else shard.members
    layout = Layout(shapes, buckets=buckets, members=members)
    return FlatGradients(leaves, layout=layout, dtype=numerics.gradient_dtype(dtype))


def _share_weights(leaves: Mapping[str, Leaves]) -> None:
    """Let all copies of a parameter use the memory of the first; done once, before any graph is made."""
    for first, *others in leaves.values():
        for other in others:
            other.data = first.data
