"""Do programs that share their ranks keep what they are, and hide each other's collectives?"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tuner.errors import ScheduleError
from tuner.operation_costs import OperationCosts
from tuner.schedules.dry_run import dry_run
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.merging import merge, merge_costs
from tuner.schedules.ordering import in_common_order
from tuner.schedules.program import Kind, Program
from tuner.schedules.updates import Synchronization
from tuner.simulation import simulate
from tuner.timeline import Timeline


def job(scheme: str, depth: int, micro_batches: int, iterations: int = 2) -> Program:
    """A lowered program."""
    return lower(generate(scheme, depth=depth, micro_batches=micro_batches, iterations=iterations))


def crossover(iterations: int, exposed: float, *, lanes: int | None = None) -> Timeline:
    """Two equal jobs of one rank that compute 3 and have a collective of `exposed`, taking turns."""
    jobs = [job("dapple", 1, 1, iterations) for _ in range(2)]
    costs = merge_costs(jobs, [OperationCosts.uniform(own, sync_s=exposed) for own in jobs])
    return simulate(merge(jobs), replace(costs, lanes=lanes))


def assert_no_overlap(timeline: Timeline) -> None:
    """A rank computes for one job at a time."""
    for rank in range(timeline.compiled.program.depth):
        events = np.flatnonzero(timeline.computes & (timeline.compiled.rank == rank))
        assert (timeline.start_s[events[1:]] >= timeline.end_s[events[:-1]]).all()


@pytest.mark.parametrize("share", [Fraction(1, 6), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3)])
def test_two_equal_jobs_hide_each_others_collectives(share: Fraction) -> None:
    """The period is max(2C, C + M): faster by min(1/(1 − φ), 2), φ = M/(C + M)."""
    compute = 3.0
    exposed = float(compute * share / (1 - share))
    before, after = (crossover(iterations, exposed) for iterations in (8, 9))
    assert_no_overlap(after)
    period = after.makespan_s - before.makespan_s
    assert period == pytest.approx(max(2 * compute, compute + exposed))
    assert 2 * (compute + exposed) / period == pytest.approx(min(1 / (1 - float(share)), 2.0))


def test_a_link_that_takes_one_collective_at_a_time_bounds_the_period() -> None:
    """ΣM on one link: 10 for two collectives of 5 beside 3 of computation each."""
    before, after = (crossover(iterations, 5.0, lanes=1) for iterations in (8, 9))
    assert after.makespan_s - before.makespan_s == pytest.approx(10.0)


def test_jobs_that_follow_each_other_hide_nothing() -> None:
    """All steps of one job, then all of the other: the order is the caller's."""
    jobs = [job("dapple", 1, 1, 4) for _ in range(2)]
    costs = merge_costs(jobs, [OperationCosts.uniform(own, sync_s=1.0) for own in jobs])
    steps = len(jobs[0].ranks[0])
    assert simulate(merge(jobs, [[0] * steps + [1] * steps]), costs).makespan_s == 2 * 4 * 4


@pytest.mark.parametrize("scheme", RECIPES)
@pytest.mark.parametrize("other", ["chimera", "zb_v", "pipedream"])
def test_merged_programs_keep_their_steps_and_run(scheme: str, other: str) -> None:
    """Each job's steps in its own order on every rank; accepted by every transport."""
    jobs = [job(scheme, 4, 8), job(other, 4, 6 if other == "chimera" else 8, 3)]
    merged = merge(jobs)
    for mode in ("buffered", "rendezvous"):
        dry_run(merged, mode)
    dry_run(in_common_order(merged), "ordered")
    pipes = 0
    for number, own in enumerate(jobs):
        for rank, steps in enumerate(merged.ranks):
            mine = [step for step in steps if merged.jobs[step[0].pipe] == number]
            back = [tuple(op._replace(pipe=op.pipe - pipes, group=-1) for op in step) for step in mine]
            assert back == [tuple(op._replace(group=-1) for op in step) for step in own.ranks[rank]]
        pipes += own.pipes


@pytest.mark.parametrize("scheme", RECIPES)
def test_a_program_merged_alone_takes_the_same_time(scheme: str) -> None:
    """With its own costs, pipe by pipe."""
    own = job(scheme, 4, 8)
    costs = OperationCosts.uniform(own, sync_s=2.0, update_s=0.5, hop_latency_s=0.25)
    alone, merged = simulate(own, costs), simulate(merge([own]), merge_costs([own], [costs]))
    assert merged.makespan_s == alone.makespan_s
    assert (merged.start_s == alone.start_s).all()


def test_every_job_has_its_own_costs() -> None:
    """A second job of other stages and twice the times: its operations take twice as long."""
    jobs = [job("dapple", 2, 2, 1), job("zb_v", 2, 4, 1)]
    costs = [
        OperationCosts.uniform(jobs[0], forward_s=1.0, backward_s=2.0, sync_s=1.0),
        OperationCosts.uniform(jobs[1], forward_s=4.0, backward_s=8.0, sync_s=7.0),
    ]
    timeline = simulate(merge(jobs), merge_costs(jobs, costs))
    columns, first = timeline.compiled.program.columns, timeline.compiled.first
    took = {
        (Kind(kind).name, pipe): float(length)
        for kind, pipe, length in zip(
            columns.kind[first], columns.pipe[first], timeline.end_s - timeline.start_s, strict=True
        )
    }
    expected = {
        ("F", 0): 1,
        ("B", 0): 2,
        ("F", 1): 2,
        ("I", 1): 2,
        ("W", 1): 2,
        ("SYNC", 0): 1,
        ("SYNC", 1): 7,
    }
    assert {key: took[key] for key in expected} == pytest.approx(expected)
    assert_no_overlap(timeline)


def test_an_update_waits_for_the_collectives_of_its_own_job() -> None:
    """A job without collectives to speak of is not held back by the other one's long ones."""
    jobs = [job("dapple", 1, 1, 1) for _ in range(2)]
    costs = [
        OperationCosts.uniform(own, sync_s=sync_s) for own, sync_s in zip(jobs, (0.0, 50.0), strict=True)
    ]
    merged = merge(jobs)
    timeline = simulate(merged, merge_costs(jobs, costs))
    updates = [
        (int(merged.columns.pipe[row]), float(timeline.end_s[event]))
        for event, row in enumerate(timeline.compiled.first)
        if merged.columns.kind[row] == Kind.UPDATE
    ]
    assert updates == [(0, 6.0), (1, 56.0)]


def test_tied_groups_of_both_jobs_are_kept_apart() -> None:
    """Groups are numbered through: four stages and a tied group of each."""
    tied = Lowering(Synchronization(tied=((0, 3),)))
    own = lower(generate("dapple", depth=4, micro_batches=4), tied)
    merged = merge([own, own])
    groups = {op.group for steps in merged.ranks for step in steps for op in step if op.kind == Kind.SYNC}
    assert groups == set(range(10))
    costs = OperationCosts.uniform(own)
    assert len(merge_costs([own, own], [costs, costs]).sync_s) == 10


REFUSED = [
    ((job("dapple", 2, 2), job("dapple", 4, 4)), None, r"need the same depth, not \[2, 4\]"),
    (
        (job("dapple", 2, 2), generate("gpipe", depth=2, micro_batches=2)),
        None,
        "gpipe has no messages .*: lower it",
    ),
    ((), None, "nothing to merge"),
    ((job("dapple", 1, 1), job("dapple", 1, 1)), [], "the order has 0 ranks, and the programs 1"),
    ((job("dapple", 1, 1),), [[0, 1]], "the order of rank 0 names program 1 of 1"),
    ((job("dapple", 1, 1),), [[0, 0]], "the order of rank 0 has 2 steps of program 0, which has 8"),
]


@pytest.mark.parametrize(("jobs", "order", "message"), REFUSED)
def test_what_cannot_be_merged_is_refused(
    jobs: tuple[Program, ...], order: list[list[int]] | None, message: str
) -> None:
    """With the numbers."""
    with pytest.raises(ScheduleError, match=message):
        merge(jobs, order)
