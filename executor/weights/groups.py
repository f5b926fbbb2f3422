"""Which processes hold a parameter group, and over which process group do they communicate?

Group s < S is stage s: held by its rank of every pipe, in each of the W pipeline groups. Group S + k is the
k-th set of tied parameters: held by the ranks of all its stages.
"""

from collections.abc import Sequence

import torch.distributed as dist

from executor.errors import ConfigurationError
from tuner.schedules.program import Integers


class ParameterGroups:
    """Members and process groups of every parameter group, made in one order on all processes.

    Every process of the job must construct this, also one that holds nothing: `new_group` waits for all.
    """

    def __init__(
        self,
        placement: Integers,
        *,
        ranks: Sequence[Sequence[int]],
        tied: Sequence[Sequence[int]] = (),
        backend: str | None = None,
    ) -> None:
        """`ranks[w][r]` is the process of rank r of pipeline group w, `tied[k]` the stages of a tied group.

        Groups of the same processes share a process group.
        """
        self.stages = int(placement.shape[1])
        _refuse_twice(ranks)
        self.members = _members(placement, ranks=ranks, tied=tied)
        """Processes of each parameter group, in ascending order."""
        self.firsts = _firsts(placement, ranks=ranks, tied=tied)
        """The process with the first copy of each group: pipeline group 0, pipe 0."""
        self.everyone = tuple(sorted(rank for group in ranks for rank in group))
        made: dict[tuple[int, ...], dist.ProcessGroup | None] = {}
        for members in (*self.members, self.everyone):
            if members not in made:
                made[members] = dist.new_group(list(members), backend=backend) if len(members) > 1 else None
        self._process_groups = made

    def process_group(self, group: int) -> dist.ProcessGroup | None:
        """Where the collectives of a parameter group run; None where one process holds it alone."""
        return self._process_groups[self.members[group]]

    def of_everyone(self) -> dist.ProcessGroup | None:
        """Of all processes that hold a stage; None where there is one."""
        return self._process_groups[self.everyone]

    def close(self) -> None:
        """Let go of the process groups, with their threads and connections; nothing may be under way."""
        for group in self._process_groups.values():
            if group is not None:
                dist.destroy_process_group(group)
        self._process_groups = dict.fromkeys(self._process_groups)


def _members(
    placement: Integers, *, ranks: Sequence[Sequence[int]], tied: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], ...]:
    stages = range(placement.shape[1])
    of_stage = [{group[int(rank)] for group in ranks for rank in placement[:, stage]} for stage in stages]
    of_tied = [set().union(*(of_stage[stage] for stage in holders)) for holders in tied]
    return tuple(tuple(sorted(members)) for members in (*of_stage, *of_tied))


def _firsts(
    placement: Integers, *, ranks: Sequence[Sequence[int]], tied: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    stages = [*range(placement.shape[1]), *(min(holders) for holders in tied)]
    return tuple(ranks[0][int(placement[0, stage])] for stage in stages)


def _refuse_twice(ranks: Sequence[Sequence[int]]) -> None:
    flat = [rank for group in ranks for rank in group]
    twice = sorted({rank for rank in flat if flat.count(rank) > 1})
    if twice:
        raise ConfigurationError(
            f"process {twice[0]} is given {flat.count(twice[0])} ranks in {len(ranks)} pipeline groups: "
            "give every rank a process of its own"
        )
