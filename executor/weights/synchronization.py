"""How do the gradients of a parameter group become one sum on all its replicas?

A SYNC starts one collective on one bucket of the group's flat buffer, in the order of the program; `finish`
waits for all of them. Sums alone: the weights n_m / Σn of the loss are all the scaling there is.
"""

from typing import Any

import torch.distributed as dist

from executor.errors import ConfigurationError
from executor.weights.gradients import FlatGradients
from executor.weights.groups import ParameterGroups
from executor.weights.holdings import RankWeights
from executor.weights.scattering import gather_pieces, scatter_sum
from executor.weights.state import GroupState
from tuner.schedules.program import Collective, Op


class Synchronizer:
    """Starts the collectives of one rank; no thread of its own, so errors surface where it waits."""

    def __init__(self, weights: RankWeights, groups: ParameterGroups) -> None:
        self._weights = weights
        self._groups = groups
        self._pending: list[Any] = []
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
            self._pending.append(_collective(op, state, flat=flat, index=index, process_group=process_group))
            self.started += 1

    def finish(self) -> None:
        """Wait for all collectives that were started."""
        for work in self._pending:
            work.wait()
        self._pending.clear()

    def _is_spoken_for(self, op: Op) -> bool:
        """Whether another replica on this rank stands for this one, whose gradients it shares."""
        return op.group == op.stage and op.pipe != self._weights.first_pipe[op.stage]


def _collective(
    op: Op, state: GroupState, *, flat: FlatGradients, index: int, process_group: dist.ProcessGroup
) -> Any:
    if op.collective == Collective.ALL_REDUCE:
        return dist.all_reduce(flat.flat[flat.layout.bucket(op.part)], group=process_group, async_op=True)
    if state.shard is None:
        raise ConfigurationError(
            f"{op} is a {op.collective.name}, but the optimizer is not sharded: lower the program without "
            "sharding"
        )
    whole = flat.flat if op.collective == Collective.REDUCE_SCATTER else state.flat_weights[index]
    run = scatter_sum if op.collective == Collective.REDUCE_SCATTER else gather_pieces
    own = flat.layout.shard(op.part, state.shard.member)
    return run(whole[flat.layout.bucket(op.part)], whole[own], process_group=process_group)
