"""Do collectives that slow computation down lengthen a run as the rule says, and by no more?"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from tests.tuner.schedules.variants import variants
from tuner.errors import DeadlockError, ScheduleError
from tuner.interference import slowed
from tuner.operation_costs import OperationCosts
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.merging import merge, merge_costs
from tuner.schedules.program import Kind, Op, Program, pack
from tuner.schedules.updates import Synchronization
from tuner.simulation import simulate
from tuner.timeline import Timeline

LAWS = settings(max_examples=5, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
EACH_SCHEME = pytest.mark.parametrize("scheme", RECIPES)
SLOWER = (1e-6, 0.05, 0.3, 1.0, 3.0)


@st.composite
def questions(draw: st.DrawFn, scheme: str) -> tuple[Program, OperationCosts]:
    """A lowered program with long collectives, and uneven costs."""
    variant = draw(variants(scheme)) | {"micro_batches": draw(st.sampled_from([1, 4, 8, 12, 16]))}
    try:
        program = generate(**variant)
    except ScheduleError:
        reject()
    policy = draw(st.sampled_from(["lazy", "eager", "eager_opt"]))
    program = lower(program, Lowering(Synchronization(policy, buckets=draw(st.integers(1, 2)))))
    random, stages, depth = np.random.default_rng(draw(st.integers(0, 2**16))), program.stages, program.depth
    costs = OperationCosts(
        forward_s=random.uniform(0.5, 1.5, stages),
        backward_s=random.uniform(1.0, 3.0, stages),
        weight_gradient_s=random.uniform(0.2, 0.8, stages),
        recompute_s=np.zeros(stages),
        update_s=random.uniform(0.0, 1.0, stages),
        sync_s=random.exponential(3.0, stages),
        latency_s=random.uniform(0.0, 0.3, (depth, depth)),
        seconds_per_byte=np.ones((depth, depth)),
        message_bytes=random.uniform(0.0, 0.5, stages),
        lanes=draw(st.sampled_from([None, 1, 2])),
    )
    return program, costs


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_without_a_slow_down_nothing_changes(scheme: str, data: st.DataObject) -> None:
    """Every time is bit by bit that of the simulation that does not know of interference."""
    program, costs = data.draw(questions(scheme))
    plain = simulate(program, costs)
    same = slowed(plain, costs)
    for name in ("start_s", "end_s", "done_s", "left_s", "arrival_s"):
        assert (getattr(plain, name) == getattr(same, name)).all()
    assert plain.held_by == same.held_by
    barely = simulate(program, replace(costs, slow_down=1e-12))
    assert barely.end_s == pytest.approx(plain.end_s, rel=1e-9)


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_a_stronger_slow_down_takes_longer(scheme: str, data: st.DataObject) -> None:
    """From the plain makespan up, never beyond that of computation which is slow all the time."""
    program, costs = data.draw(questions(scheme))
    before = simulate(program, costs).makespan_s
    for slow_down in SLOWER:
        makespan = simulate(program, replace(costs, slow_down=slow_down)).makespan_s
        assert makespan >= before * (1 - 1e-9)
        assert makespan <= simulate(program, always_slow(costs, slow_down)).makespan_s * (1 + 1e-9)
        before = makespan


def always_slow(costs: OperationCosts, slow_down: float) -> OperationCosts:
    """Costs of computation that is slowed down from beginning to end."""
    names = ("forward_s", "backward_s", "weight_gradient_s", "update_s")
    return replace(costs, **{name: getattr(costs, name) * (1 + slow_down) for name in names})


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_collectives_that_computation_slows_take_longer(scheme: str, data: st.DataObject) -> None:
    """No event comes earlier than without, and none later than with collectives that always take so long."""
    program, costs = data.draw(questions(scheme))
    costs = replace(costs, slow_down=0.3)
    plain = simulate(program, costs)
    assert (simulate(program, replace(costs, sync_beside_s=costs.sync_s)).end_s == plain.end_s).all()
    for factor in (1.5, 4.0):
        slower = simulate(program, replace(costs, sync_beside_s=factor * costs.sync_s))
        always = simulate(program, always_slow(replace(costs, sync_s=factor * costs.sync_s), 0.3))
        undisturbed = simulate(program, costs.without_interference)
        assert (slower.end_s >= undisturbed.end_s - 1e-9).all()
        assert (slower.end_s <= always.end_s + 1e-9).all()


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_a_step_is_slow_just_as_long_as_a_collective_runs_beside_it(scheme: str, data: st.DataObject) -> None:
    """Length = work + overlap·σ/(1 + σ), for every step of every rank."""
    program, costs = data.draw(questions(scheme))
    plain = simulate(program, costs)
    timeline = simulate(program, replace(costs, slow_down=0.5))
    for rank in range(program.depth):
        mine = timeline.compiled.rank == rank
        intervals = merged_intervals(timeline, mine & ~timeline.computes)
        for event in np.flatnonzero(mine & timeline.computes).tolist():
            start, end = timeline.start_s[event], timeline.end_s[event]
            beside = sum(max(0.0, min(end, last) - max(start, first)) for first, last in intervals)
            work = plain.end_s[event] - plain.start_s[event]
            assert end - start == pytest.approx(work + beside / 3, abs=1e-9)


def merged_intervals(timeline: Timeline, events: np.ndarray) -> list[list[float]]:
    """When at least one of the events runs."""
    intervals: list[list[float]] = []
    for start, end in sorted(zip(timeline.start_s[events], timeline.end_s[events], strict=True)):
        if intervals and start <= intervals[-1][1]:
            intervals[-1][1] = max(intervals[-1][1], end)
        else:
            intervals.append([start, end])
    return intervals


@pytest.mark.parametrize(("slow_down", "sync_s", "end"), [(0.5, 1.5, 6.5), (1.0, 1.5, 6.75), (0.5, 9.0, 7.0)])
def test_a_backward_beside_a_collective_by_hand(slow_down: float, sync_s: float, end: float) -> None:
    """Two stages on one rank: the collective of stage 1 starts at 4, beside the backward (2) of stage 0."""
    kinds = [(Kind.F, 0), (Kind.F, 1), (Kind.B, 1), (Kind.B, 0)]
    steps = [(Op(kind, 0, stage, 0),) for kind, stage in kinds]
    program = Program("by hand", 1, 1, np.array([[0, 0]]), [steps], chunks=2)
    program = lower(program, Lowering(Synchronization("eager")))
    costs = OperationCosts.uniform(program, forward_s=2.0, backward_s=4.0)
    timeline = simulate(program, replace(costs, sync_s=np.array([0.0, sync_s]), slow_down=slow_down))
    (last,) = np.flatnonzero(
        (program.columns.kind[timeline.compiled.first] == Kind.B)
        & (program.columns.stage[timeline.compiled.first] == 0)
    )
    assert timeline.end_s[last] == end
    assert timeline.makespan_s == max(end, 4.0 + sync_s)


@pytest.mark.parametrize(("sync_s", "end"), [(1.0, 6.0), (1.5, 6.5), (3.0, 8.0)])
def test_a_collective_beside_a_backward_by_hand(sync_s: float, end: float) -> None:
    """The collective of stage 1 goes at half its speed from 4 to 6, while stage 0 computes."""
    kinds = [(Kind.F, 0), (Kind.F, 1), (Kind.B, 1), (Kind.B, 0)]
    steps = [(Op(kind, 0, stage, 0),) for kind, stage in kinds]
    program = Program("by hand", 1, 1, np.array([[0, 0]]), [steps], chunks=2)
    program = lower(program, Lowering(Synchronization("eager")))
    costs = OperationCosts.uniform(program, forward_s=2.0, backward_s=4.0)
    groups = np.array([0.0, sync_s])
    timeline = simulate(program, replace(costs, sync_s=groups, sync_beside_s=2 * groups))
    assert timeline.makespan_s == pytest.approx(end)


def test_merged_jobs_slow_each_other_down() -> None:
    """Two jobs of C = 3, M = 1.5: 1.5 of every other computation runs at 2/3, so the period is 7, not 6."""
    ends = []
    for iterations in (8, 9):
        jobs = [lower(generate("dapple", depth=1, micro_batches=1, iterations=iterations)) for _ in range(2)]
        costs = merge_costs(jobs, [OperationCosts.uniform(own, sync_s=1.5) for own in jobs])
        ends.append(simulate(merge(jobs), replace(costs, slow_down=0.5)).makespan_s)
    assert ends[1] - ends[0] == pytest.approx(7.0)


def test_a_deadlock_is_still_refused() -> None:
    """Two ranks that start two collectives in different orders."""
    program = lower(generate("chimera", depth=4, micro_batches=4))
    ranks = [list(steps) for steps in program.ranks]
    one, other = (at for at, step in enumerate(ranks[1]) if step[0].kind == Kind.SYNC)
    ranks[1][one], ranks[1][other] = ranks[1][other], ranks[1][one]
    costs = replace(OperationCosts.uniform(program), slow_down=0.5)
    costs = replace(costs, sync_beside_s=2 * costs.sync_s)
    with pytest.raises(DeadlockError, match="rank 1 at UPDATE"):
        simulate(program.lowered_to(pack(ranks)), costs)
