"""What do jobs look like over time, one after the other and in turns? Stretches of each rank, by job."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.crossover import Sharer
from tuner.operation_costs import count_groups
from tuner.schedules.generators import program_of
from tuner.schedules.lowering import lower
from tuner.schedules.merging import merge, merge_costs
from tuner.schedules.program import Integers, Kind, Program
from tuner.simulation import simulate
from tuner.timeline import Timeline

TURNS = 3
_FINEST = 1_200
"""Pauses shorter than this part of the picture are not seen."""


@dataclass(frozen=True)
class Stretch:
    """A rank computes for a job, or waits for a collective of it."""

    rank: int
    job: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Lanes:
    """The same iterations of all jobs, in one of two ways."""

    computing: tuple[Stretch, ...]
    gradients: tuple[Stretch, ...]
    """Collectives, from the last member's start to their end."""
    end_s: float


def crossover_lanes(jobs: Sequence[Sharer]) -> tuple[Lanes, Lanes]:
    """Three iterations of every job one after the other, and in turns; raises as `cross_over` does."""
    one, programs = ([_program(job, turns) for job in jobs] for turns in (1, TURNS))
    alone = [simulate(program, job.costs) for program, job in zip(one, jobs, strict=True)]
    costs = [job.costs for job in jobs]
    shared = simulate(merge(programs), merge_costs(programs, costs))
    pipes, groups = ([f(program) for program in programs] for f in (lambda p: p.pipes, count_groups))
    finest = shared.makespan_s / _FINEST
    parts = [_lanes(timeline, [timeline.compiled.program.pipes], [1], finest=finest) for timeline in alone]
    return _one_after_another(parts), _lanes(shared, pipes, groups, finest=finest)


def _program(job: Sharer, turns: int) -> Program:
    return lower(program_of(job.configuration, iterations=turns))


def _one_after_another(parts: Sequence[Lanes]) -> Lanes:
    """The jobs in their order, again and again; each begins where the one before has ended on all ranks."""
    computing, gradients, at_s = list[Stretch](), list[Stretch](), 0.0
    for _ in range(TURNS):
        for job, lanes in enumerate(parts):
            computing += [_moved(each, job, at_s) for each in lanes.computing]
            gradients += [_moved(each, job, at_s) for each in lanes.gradients]
            at_s += lanes.end_s
    return Lanes(tuple(computing), tuple(gradients), at_s)


def _moved(stretch: Stretch, job: int, by_s: float) -> Stretch:
    return Stretch(stretch.rank, job, stretch.start_s + by_s, stretch.end_s + by_s)


def _lanes(timeline: Timeline, pipes: Sequence[int], groups: Sequence[int], *, finest: float) -> Lanes:
    """`pipes` and `groups` are how many each job has: they are numbered through."""
    compiled, columns = timeline.compiled, timeline.compiled.program.columns
    row = compiled.first
    computes = np.flatnonzero(timeline.computes & (timeline.end_s > timeline.start_s))
    waits = np.flatnonzero((columns.kind[row] == Kind.SYNC) & (timeline.end_s > timeline.start_s))
    by_pipe = np.searchsorted(np.cumsum(pipes), columns.pipe[row[computes]], side="right")
    by_group = np.searchsorted(np.cumsum(groups), columns.group[row[waits]], side="right")
    return Lanes(
        _joined(timeline, computes, np.minimum(by_pipe, len(pipes) - 1), finest=finest),
        _joined(timeline, waits, np.minimum(by_group, len(groups) - 1), finest=finest),
        timeline.makespan_s,
    )


def _joined(timeline: Timeline, events: Integers, jobs: Integers, *, finest: float) -> tuple[Stretch, ...]:
    """What follows without a pause that could be seen is one stretch."""
    ranks, starts, ends = timeline.compiled.rank[events], timeline.start_s[events], timeline.end_s[events]
    order = np.lexsort((starts, jobs, ranks))
    found = list[Stretch]()
    each = zip(
        ranks[order].tolist(), jobs[order].tolist(), starts[order].tolist(), ends[order].tolist(), strict=True
    )
    for rank, job, start_s, end_s in each:
        last = found[-1] if found else None
        if last and (last.rank, last.job) == (rank, job) and start_s <= last.end_s + finest:
            found[-1] = Stretch(rank, job, last.start_s, max(last.end_s, end_s))
        else:
            found.append(Stretch(rank, job, start_s, end_s))
    return tuple(found)
