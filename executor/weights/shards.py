"""How does the optimizer of a parameter group step only this rank's shard of it?

All weights of the group lie in one flat buffer with the layout of their gradients. A REDUCE_SCATTER leaves
the gradients' sum on the shard's owner, the optimizer steps that shard and keeps state for nothing else, and
an ALL_GATHER brings the weights of the other shards (ZeRO stage 1, arXiv 1910.02054, section 5.1).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from executor.errors import CheckpointError, ConfigurationError
from executor.weights.gradients import FlatGradients
from executor.weights.precision import Numerics
from executor.weights.steps import OptimizerFactory, made, scale_gradients

ELEMENTWISE = (
    torch.optim.SGD,
    torch.optim.Adam,
    torch.optim.AdamW,
    torch.optim.RMSprop,
    torch.optim.Adagrad,
    torch.optim.Adadelta,
    torch.optim.Adamax,
    torch.optim.NAdam,
    torch.optim.RAdam,
    torch.optim.ASGD,
    torch.optim.Rprop,
)
"""Optimizers that treat every element alike, so that a piece of a parameter can be stepped alone."""


SCALARS = frozenset({"step", "mu_product", "eta", "mu"})
"""What those keep once for a parameter; everything else has its shape."""


class Shard(NamedTuple):
    """Which part of every bucket a rank owns."""

    member: int
    members: int


class Piece(NamedTuple):
    """Elements of a flat buffer that lie in one shard and belong to one set of optimizer options."""

    flat: int
    options: int
    """The optimizer's parameter group."""
    start: int
    stop: int
    target: nn.Parameter
    """What the optimizer steps [stop − start]: the weights themselves, or their float32 master."""


class ShardedSteps:
    """Steps this rank's shard."""

    def __init__(
        self, flats: list[FlatGradients], *, optimizer: OptimizerFactory, numerics: Numerics, shard: Shard
    ) -> None:
        self.flats = flats
        self.weights = [_flatten(flat) for flat in flats]
        """The weights of each flat buffer, of which the parameters are views."""
        self.shard = shard
        self.mixed = numerics.mixed
        leaves = {name: copies[0] for flat in flats for name, copies in flat.leaves.items()}
        self.optimizer = made(optimizer, leaves.values())
        if type(self.optimizer) not in ELEMENTWISE:
            known = ", ".join(kind.__name__ for kind in ELEMENTWISE)
            raise ConfigurationError(
                f"{type(self.optimizer).__name__} cannot be divided over replicas, because its step of an "
                f"element may depend on others: choose optimizer_sharding none, or one of {known}"
            )
        self.numbers = numbers_of(self.optimizer, leaves)
        """The optimizer's parameter group of each name."""
        initial = {name: dict(self.optimizer.state.pop(leaf, {})) for name, leaf in leaves.items()}
        self.pieces = self._replace_parameters()
        self.load_state(initial)

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Multiply the gradients by `factor`, and step the shard's weights."""
        for flat in self.flats:
            scale_gradients(flat, factor, mixed=self.mixed)
        for piece in self.pieces:
            gradient = self.flats[piece.flat].flat[piece.start : piece.stop]
            low = gradient.dtype != piece.target.dtype
            piece.target.grad = gradient.float().mul_(factor) if low else gradient
        self.optimizer.step()
        for piece in self.pieces:
            piece.target.grad = None
            if self.mixed:
                self.weights[piece.flat][piece.start : piece.stop].copy_(piece.target)

    @torch.no_grad()
    def set_masters(self, weights: Mapping[str, Tensor]) -> None:
        """Take the masters from weights of a higher precision, by name; without masters nothing happens."""
        if not self.mixed:
            return
        for index, flat in enumerate(self.flats):
            whole = self.weights[index].float()
            for name, view in zip(flat.names, flat.layout.views(whole), strict=True):
                if name in weights:
                    view.copy_(weights[name])
            for piece in self.pieces:
                if piece.flat == index:
                    piece.target.copy_(whole[piece.start : piece.stop])

    def move_to(self, leaves: Mapping[str, nn.Parameter]) -> None:
        """Raises ConfigurationError: a new version's weights are complete only after the ALL_GATHER."""
        raise ConfigurationError(
            f"{len(leaves)} parameters have weight versions, which a sharded optimizer cannot make: choose "
            "optimizer_sharding none, or a synchronous schedule"
        )

    def load_state(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Take this rank's shard of the state of every parameter, by name."""
        for piece in self.pieces:
            names = [name for name in self.flats[piece.flat].names if self.numbers[name] == piece.options]
            keys = {frozenset(states[name]) for name in names}
            if len(keys) > 1:
                raise CheckpointError(
                    f"{names[0]} and {len(names) - 1} more parameters have different kinds of optimizer "
                    "state: load them with optimizer_sharding none"
                )
            self.optimizer.state.pop(piece.target, None)
            for key in sorted(keys.pop()):
                self.optimizer.state[piece.target][key] = self._cut(piece, names, key=key, states=states)

    def _cut(
        self, piece: Piece, names: list[str], *, key: str, states: Mapping[str, Mapping[str, Any]]
    ) -> Any:
        """A piece of what is kept for every element, or the scalar."""
        first, flat = states[names[0]][key], self.flats[piece.flat]
        if key in SCALARS or not isinstance(first, Tensor):
            return first.clone() if isinstance(first, Tensor) else first
        whole = torch.zeros(flat.layout.length, dtype=first.dtype)
        for name, view in zip(flat.names, flat.layout.views(whole), strict=True):
            if name in names:
                view.copy_(state_of_shape(states[name][key], view, name=name))
        dtype = piece.target.dtype if whole.is_floating_point() else whole.dtype
        return whole[piece.start : piece.stop].to(device=piece.target.device, dtype=dtype, copy=True)

    def _replace_parameters(self) -> list[Piece]:
        """Give every group of options its pieces of the shard in the place of its parameters."""
        pieces: list[Piece] = []
        for group in self.optimizer.param_groups:
            group["params"] = []
        for index, flat in enumerate(self.flats):
            runs = _runs(flat, self.numbers)
            for bucket in range(flat.layout.buckets):
                owned = flat.layout.shard(bucket, self.shard.member)
                for start, stop, options in runs:
                    low, high = max(start, owned.start), min(stop, owned.stop)
                    if low < high:
                        piece = Piece(index, options, low, high, self._target(index, low, high))
                        pieces.append(piece)
                        self.optimizer.param_groups[options]["params"].append(piece.target)
        return pieces

    def _target(self, flat: int, start: int, stop: int) -> nn.Parameter:
        weights = self.weights[flat][start:stop]
        return nn.Parameter(weights.to(torch.float32, copy=True) if self.mixed else weights)


def state_of_shape(value: Tensor, like: Tensor, *, name: str) -> Tensor:
    """`value`; raises CheckpointError where it is not of the parameter's shape."""
    if value.shape != like.shape:
        raise CheckpointError(
            f"the optimizer state of {name} has shape {list(value.shape)}, the parameter {list(like.shape)}: "
            "is it of this model?"
        )
    return value


def numbers_of(optimizer: torch.optim.Optimizer, leaves: Mapping[str, nn.Parameter]) -> dict[str, int]:
    """The optimizer's parameter group of each name."""
    names = {id(leaf): name for name, leaf in leaves.items()}
    return {
        names[id(parameter)]: number
        for number, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
    }


def _runs(flat: FlatGradients, number: Mapping[str, int]) -> list[tuple[int, int, int]]:
    """(start, stop, options) of neighbouring parameters with the same options; padding goes with the last."""
    layout = flat.layout
    runs: list[tuple[int, int, int]] = []
    ends = [*layout.offsets[1:], layout.length]
    for name, start, stop in zip(flat.names, layout.offsets, ends, strict=True):
        if runs and runs[-1][2] == number[name]:
            runs[-1] = (runs[-1][0], stop, number[name])
        else:
            runs.append((start, stop, number[name]))
    return runs


@torch.no_grad()
def _flatten(flat: FlatGradients) -> Tensor:
    """Move the weights into one buffer; done once, before any graph is made."""
    first = next(iter(flat.leaves.values()))[0]
    weights = torch.zeros(flat.layout.length, dtype=first.dtype, device=first.device)
    for (_, copies), view in zip(flat.leaves.items(), flat.layout.views(weights), strict=True):
        view.copy_(copies[0])
        for leaf in copies:
            leaf.data = view
    return weights
