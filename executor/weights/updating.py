"""When are gradients complete, how large may they be, and who steps the weights?

The first UPDATE of a round on a rank waits for the round's collectives, and where gradients are clipped or
may overflow, all ranks agree on their norm: every parameter once, whatever copies it has. Then each UPDATE
steps the weights of its stage; tied parameters step with the first.
"""

from collections.abc import Callable, Mapping
from math import inf, isfinite, sqrt

import torch
import torch.distributed as dist

from executor.weights.groups import ParameterGroups
from executor.weights.holdings import RankWeights
from executor.weights.precision import LossScale
from executor.weights.synchronization import Synchronizer
from executor.weights.updates_at_once import refuse_asynchronous
from tuner.schedules.program import Op, Program

Place = tuple[int, int]
"""(pipe, stage)"""

VersionedUpdate = Callable[[Op], None]
"""Makes the weight version of an UPDATE: moves the group to new leaves, and steps those."""

_EPSILON = 1e-6
"""Of `torch.nn.utils.clip_grad_norm_`, so that a coefficient is the same as in one process."""


class Updater:
    """Steps the weights of one rank."""

    def __init__(
        self,
        weights: RankWeights,
        synchronizer: Synchronizer,
        *,
        groups: ParameterGroups,
        rank: int,
        program: Program,
        max_norm: float | None = None,
        versioned: Mapping[Place, VersionedUpdate] | None = None,
    ) -> None:
        """`rank` is the global one; gradients of a norm above `max_norm` are scaled down to it."""
        self._weights = weights
        self._synchronizer = synchronizer
        self._groups = groups
        self._rank = rank
        self._max_norm = max_norm
        self._versioned = versioned or {}
        self._zeroes = not program.synchronous
        """Whether gradients are forgotten with the step: the next ones come before the iteration ends."""
        self.loss_scale = LossScale() if weights.numerics.precision == "float16" else None
        if not program.synchronous:
            refuse_asynchronous(
                program.scheme,
                float16=self.loss_scale is not None,
                tied=len(weights.tied),
                sharded=any(state.shard is not None for state in weights.groups.values()),
                max_norm=max_norm,
                compressed=synchronizer.compressor.compression.name != "none",
            )
        synchronizer.loss_scale = self.loss_scale
        self._left = 0
        """UPDATEs of the round that are still to come."""
        self.factor: float | None = 1.0
        """What gradients are multiplied by before the step; None where it is skipped."""
        self.gradient_norm: float | None = None
        """Of the last round, before clipping, where it was needed."""

    @property
    def loss_factor(self) -> float:
        """What every loss is multiplied by before its backward."""
        return 1.0 if self.loss_scale is None else self.loss_scale.value

    def settle(self, op: Op) -> None:
        """Have the gradients of the round complete: waits at its first UPDATE, does nothing at the others."""
        del op  # one round at a time is under way on a rank
        if self._left:
            return
        self._left = len(self._weights.held)
        self._synchronizer.finish()
        self.factor = self._agreed_factor()
        self._synchronizer.settle(stepped=self.factor is not None)

    def update(self, op: Op) -> None:
        """The optimizer step of a stage."""
        self.settle(op)
        if self._left == len(self._weights.held):
            self._step_tied()
        self._left -= 1
        if op.pipe != self._weights.first_pipe[op.stage]:
            return
        state = self._weights.groups.get(op.stage)
        versioned = self._versioned.get((op.pipe, op.stage))
        if versioned is not None:
            versioned(op)
        elif state is not None and self.factor is not None:
            state.step(self.factor)
        if state is not None and self._zeroes:
            state.zero()

    def finish(self) -> None:
        """End of an iteration: wait for the weights that other ranks have stepped."""
        self._synchronizer.finish()

    def _step_tied(self) -> None:
        for number, state in self._weights.groups.items():
            if number >= self._groups.stages and self.factor is not None:
                state.step(self.factor)

    def _agreed_factor(self) -> float | None:
        """The clip coefficient over the loss scale, the same on all ranks; None skips the step."""
        if self._max_norm is None and self.loss_scale is None:
            return 1.0
        scale = self.loss_factor
        norm = sqrt(self._squared_norm()) / scale
        self.gradient_norm = norm
        if self.loss_scale is not None:
            if not isfinite(norm):
                self.loss_scale.overflowed()
                return None
            self.loss_scale.stepped()
        return min(1.0, (inf if self._max_norm is None else self._max_norm) / (norm + _EPSILON)) / scale

    def _squared_norm(self) -> float:
        """Over all parameters of the model, each counted by one rank, or by the owners of its shards."""
        total = torch.zeros((), dtype=torch.float64)
        for number, state in self._weights.groups.items():
            if state.shard is not None or self._groups.firsts[number] == self._rank:
                part = state.squared_norm()
                total = total.to(part.device) + part
        process_group = self._groups.of_everyone()
        if process_group is not None:
            dist.all_reduce(total, group=process_group)
        return total.item()
