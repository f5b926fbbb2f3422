"""Where do gradient collectives and optimizer steps stand?

Policies (section 3.2 of the Chimera paper): `lazy` starts every collective after all local compute; `eager`
as soon as the stage's gradients are complete on the rank; `eager_opt` does so only for stages after the
middle, behind which a bubble follows. Every rank starts its collectives in one order of groups, later
stages first and tied groups last, so that two ranks that share two groups cannot wait for each other.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tuner.schedules.program import Collective, Kind, Op, Program

SyncPolicy = Literal["lazy", "eager", "eager_opt"]

Round = tuple[int, int]
"""Iteration and, where every micro-batch is an update of its own, the micro-batch; else −1."""


@dataclass(frozen=True)
class Synchronization:
    """How gradients are synchronised."""

    policy: SyncPolicy = "eager_opt"
    buckets: int = 1
    sharded: bool = False
    """Reduce-scatter before the UPDATE and all-gather after it, instead of one all-reduce."""
    tied: tuple[tuple[int, ...], ...] = ()
    """Stages that share parameters, for each tied group."""


Due = tuple[int, list[Op]]
"""A row of the program's columns, and the operations that stand behind it."""


def updates_due(program: Program, how: Synchronization) -> list[Due]:
    """The collectives and optimizer steps of every rank, each list behind the row that makes it due."""
    due: list[Due] = []
    columns = program.columns
    rows = np.flatnonzero(np.isin(columns.kind, (Kind.B, Kind.W)))
    rounds = columns.micro_batch[rows] if program.updates == "micro_batch" else np.full(len(rows), -1)
    keys = np.stack([columns.rank[rows], columns.iteration[rows], rounds, columns.stage[rows]])
    _, last = np.unique(keys[:, ::-1], axis=1, return_index=True)
    complete = np.sort(len(rows) - 1 - last)
    ranks = [_RankUpdates(program, rank, how) for rank in range(program.depth)]
    places = np.vstack([keys[:, complete], rows[complete]]).T.tolist()
    for rank, iteration, micro_batch, stage, _ in places:
        ranks[rank].expect((iteration, micro_batch), stage)
    for rank, iteration, micro_batch, stage, row in places:
        ops = list(ranks[rank].completed((iteration, micro_batch), stage))
        if ops:
            due.append((row, ops))
    return due


class _RankUpdates:
    """What is due on one rank as its stages complete their gradients, round by round.

    A stage whose pipe has no micro-batch in a round has nothing to complete, and takes part all the same.
    """

    def __init__(self, program: Program, rank: int, how: Synchronization) -> None:
        self._how = how
        self._stages = program.stages
        self._micro_batches = program.micro_batches
        pipes, stages = (program.placement == rank).nonzero()
        self._held = sorted(zip(stages.tolist(), pipes.tolist(), strict=True), reverse=True)
        """(stage, pipe) that the rank holds, later stages first."""
        self._incomplete: dict[Round, set[int]] = defaultdict(set)
        self._started: Counter[Round] = Counter()
        """How many of the held stages have started their collective."""

    def expect(self, current: Round, stage: int) -> None:
        """`stage` has gradients to compute in that round."""
        self._incomplete[current].add(stage)

    def completed(self, current: Round, stage: int) -> Iterator[Op]:
        """What is due once `stage` has the gradients of the whole round."""
        incomplete = self._incomplete[current]
        incomplete.remove(stage)
        while self._started[current] < len(self._held):
            later, pipe = self._held[self._started[current]]
            if later in incomplete or (incomplete and not self._early(later)):
                return
            self._started[current] += 1
            yield from self._sync(current, pipe, later, group=later)
        yield from self._finish(current)

    def _early(self, stage: int) -> bool:
        if self._how.policy == "eager_opt":
            return stage > self._stages / 2
        return self._how.policy == "eager"

    def _finish(self, current: Round) -> Iterator[Op]:
        """Tied groups, updates, and the all-gather of sharded updates, once every held stage is complete."""
        for number, members in enumerate(self._how.tied):
            held = next(((stage, pipe) for stage, pipe in self._held if stage in members), None)
            if held is not None:
                yield from self._sync(current, held[1], held[0], group=self._stages + number)
        iteration, micro_batch = current
        version = 1 + (iteration if micro_batch < 0 else iteration * self._micro_batches + micro_batch)
        for stage, pipe in self._held:
            yield Op(Kind.UPDATE, pipe, stage, micro_batch, 0, 1, version, iteration)
        if self._how.sharded:
            for stage, pipe in self._held:
                yield from self._sync(current, pipe, stage, group=stage, collective=Collective.ALL_GATHER)

    def _sync(
        self, current: Round, pipe: int, stage: int, *, group: int, collective: Collective | None = None
    ) -> Iterator[Op]:
        scatter = self._how.sharded and group < self._stages
        how = collective or (Collective.REDUCE_SCATTER if scatter else Collective.ALL_REDUCE)
        buckets = self._how.buckets
        for bucket in range(buckets):
            yield Op(Kind.SYNC, pipe, stage, current[1], bucket, buckets, 0, current[0], group, how)
