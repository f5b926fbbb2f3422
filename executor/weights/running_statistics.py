"""What becomes of the buffers that the replicas of a stage change on their own, such as running statistics?

Every replica updates them in the order in which it runs its micro-batches. After each iteration they are
merged over all replicas of the stage, also those that had no micro-batch: floating ones are averaged, others
(counters, masks) become the largest. Buffers that no replica has changed stay bit for bit as they were.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from executor.weights.groups import ParameterGroups
from executor.weights.holdings import HeldStage


class RunningStatistics:
    """The buffers of this rank's stages."""

    def __init__(self, held: Sequence[HeldStage], *, groups: ParameterGroups, replicas: int) -> None:
        """Replicas must be equal here; `replicas` is their number, W times the pipes."""
        self._replicas = replicas
        by_stage: dict[int, list[HeldStage]] = {}
        for one in sorted(held, key=lambda one: (one.stage, one.pipe)):
            by_stage.setdefault(one.stage, []).append(one)
        self._stages = [
            _StageBuffers(copies, process_group=groups.process_group(stage))
            for stage, copies in sorted(by_stage.items(), reverse=True)
        ]

    def merge(self) -> None:
        """At the end of an iteration, on every rank; stages in the order of their other collectives."""
        if self._replicas > 1:
            for stage in self._stages:
                stage.merge(self._replicas)

    def restart(self) -> None:
        """All replicas were set to the same values, as from a checkpoint."""
        for stage in self._stages:
            stage.restart()


class _StageBuffers:
    def __init__(self, copies: Sequence[HeldStage], *, process_group: dist.ProcessGroup | None) -> None:
        self._copies = copies
        self._process_group = process_group
        self._before: list[Tensor] = []
        """Values after the last merge, the same on all replicas."""
        self.restart()

    def restart(self) -> None:
        self._before = [tensor.detach().clone() for tensor in self._named()[0]]

    @torch.no_grad()
    def merge(self, replicas: int) -> None:
        if not self._before:
            return
        named = self._named()
        for index in self._changed(named):
            values = [tensors[index] for tensors in named]
            self._merge_one(index, values, replicas=replicas)

    def _named(self) -> list[list[Tensor]]:
        return [[tensor for _, tensor in one.buffers()] for one in self._copies]

    def _changed(self, named: list[list[Tensor]]) -> list[int]:
        """Buffers that some replica has changed since the last merge."""
        # By value: batch normalisation does not count the versions of what it changes.
        changed = [
            torch.stack([(tensors[index] != before).any() for tensors in named]).any()
            for index, before in enumerate(self._before)
        ]
        flags = torch.stack(changed).to(torch.int32)
        if self._process_group is not None:
            dist.all_reduce(flags, op=dist.ReduceOp.MAX, group=self._process_group)
        return flags.nonzero().flatten().tolist()

    def _merge_one(self, index: int, values: list[Tensor], *, replicas: int) -> None:
        before = self._before[index]
        if before.is_floating_point() or before.is_complex():
            # Changes are averaged instead of values: exact where nothing was changed, also for infinities.
            total = torch.zeros_like(before)
            for value in values:
                total.add_(torch.where(value == before, 0, value - before))
            self._reduce(total, dist.ReduceOp.SUM)
            before.add_(total / replicas)
        else:
            largest = values[0].to(torch.int64)
            for value in values[1:]:
                largest = torch.maximum(largest, value.to(torch.int64))
            self._reduce(largest, dist.ReduceOp.MAX)
            before.copy_(largest)
        for value in values:
            value.copy_(before)

    def _reduce(self, tensor: Tensor, operation: dist.ReduceOp.RedOpType) -> None:
        if self._process_group is not None:
            dist.all_reduce(tensor, op=operation, group=self._process_group)
