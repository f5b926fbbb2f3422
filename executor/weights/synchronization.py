"""How do the gradients of a parameter group become one sum on all its replicas?

A SYNC starts one collective on one bucket of the group's flat buffer, in the order of the program; `finish`
waits for all of them. Sums alone: the weights n_m / Σn of the loss are all the scaling there is. Where
gradients are compressed, those weighted ones are, and everything later works on the sum that was agreed.
"""

from typing import Any

import torch.distributed as dist
from torch import Tensor

from executor.compression.compressor import Compressor
from executor.compression.exchanges import CAST_DTYPES, CastScatter
from executor.compression.feedback import Unit
from executor.compression.wire import Wire
from executor.errors import ConfigurationError
from executor.weights.gradients import FlatGradients
from executor.weights.groups import ParameterGroups
from executor.weights.holdings import RankWeights
from executor.weights.precision import LossScale
from executor.weights.state import GroupState
from tuner.compression import NONE, Compression
from tuner.schedules.program import Collective, Op


class Synchronizer:
    """Starts the collectives of one rank; no thread of its own, so errors surface where it waits."""

    def __init__(
        self,
        weights: RankWeights,
        groups: ParameterGroups,
        *,
        compression: Compression = NONE,
        wire: Wire | None = None,
        rank: int = 0,
        seed: int = 0,
    ) -> None:
        """`rank` is the global one; `seed` is of the random numbers that a compression draws."""
        self._weights = weights
        self._groups = groups
        self._rank = rank
        self._pending: list[Any] = []
        self.wire = wire or Wire()
        """Counts what is sent."""
        self.compressor = Compressor(compression, wire=self.wire, seed=seed)
        self.loss_scale: LossScale | None = None
        """What is in the gradients; the updater's own."""
        self.started = 0
        """Collectives since the start."""

    def start(self, op: Op) -> None:
        """Begin the collective of a SYNC; returns at once."""
        state = self._weights.groups.get(op.group)
        if state is None or self._is_spoken_for(op):
            return
        if op.parts != state.buckets:
            raise ConfigurationError(
                f"{op} has {op.parts} buckets, the weights were laid out for {state.buckets}: lower the "
                "program with as many"
            )
        if op.collective != Collective.ALL_GATHER and op.part == 0:
            for flat in state.flats:
                flat.check()
        process_group = self._groups.process_group(op.group)
        if process_group is None:
            return
        for index, flat in enumerate(state.flats):
            pending = self._collective(op, state, flat=flat, index=index, process_group=process_group)
            if pending is not None:
                self._pending.append(pending)
                self.started += 1

    def finish(self) -> None:
        """Wait for all collectives that were started, and for those that follow from them."""
        self.compressor.proceed()
        for work in self._pending:
            work.wait()
        self._pending.clear()

    def settle(self, *, stepped: bool) -> None:
        """Tell the compression that the step was made, or skipped."""
        self.compressor.settle(stepped=stepped)

    def _is_spoken_for(self, op: Op) -> bool:
        """Whether another replica on this rank stands for this one, whose gradients it shares."""
        return op.group == op.stage and op.pipe != self._weights.first_pipe[op.stage]

    def _collective(
        self, op: Op, state: GroupState, *, flat: FlatGradients, index: int, process_group: dist.ProcessGroup
    ) -> Any:
        """What was started; None where there is nothing to send."""
        if op.collective == Collective.ALL_REDUCE:
            if self.compressor.compression.name != "none":
                return self._compressed(op, flat, index=index, process_group=process_group)
            return self.wire.all_reduce(flat.flat[flat.layout.bucket(op.part)], process_group)
        if state.shard is None:
            raise ConfigurationError(
                f"{op} is a {op.collective.name}, but the optimizer is not sharded: lower the program "
                "without sharding"
            )
        scatters = op.collective == Collective.REDUCE_SCATTER
        whole = flat.flat if scatters else state.flat_weights[index]
        own = whole[flat.layout.shard(op.part, state.shard.member)]
        bucket = whole[flat.layout.bucket(op.part)]
        return (
            self._scattered(bucket, own, process_group)
            if scatters
            else self.wire.all_gather(bucket, own, process_group)
        )

    def _scattered(self, bucket: Tensor, own: Tensor, process_group: dist.ProcessGroup) -> Any:
        dtype = CAST_DTYPES.get(self.compressor.compression.name)
        if dtype is None:
            return self.wire.reduce_scatter(bucket, own, process_group)
        return CastScatter(bucket, own, dtype, wire=self.wire, process_group=process_group)

    def _compressed(
        self, op: Op, flat: FlatGradients, *, index: int, process_group: dist.ProcessGroup
    ) -> Any:
        """The bucket without its padding, or the whole buffer with its first bucket."""
        bucket, used = flat.layout.bucket(op.part), flat.layout.used
        if self.compressor.whole:
            bucket = slice(0, used if op.part == 0 else 0)
        stop = min(bucket.stop, used)
        if bucket.start >= stop:
            return None
        unit = Unit(
            place=(op.group, index),
            start=bucket.start,
            gradient=flat.flat[bucket.start : stop],
            replica=dist.get_group_rank(process_group, self._rank),
            replicas=process_group.size(),
        )
        scale = 1.0 if self.loss_scale is None else self.loss_scale.value
        return self.compressor.start(unit, process_group, length=used, scale=scale)
