"""Are the simulated times those of the rules: inputs, links, collectives, one step at a time on a rank?"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from tests.tuner.schedules import oracle
from tests.tuner.schedules.variants import variants
from tuner.errors import ScheduleError, UnmatchedMessageError
from tuner.lower_bounds import lower_bounds
from tuner.operation_costs import OperationCosts, transfer_times
from tuner.schedules.compiled import NONE, compile_program
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.program import COMPUTE, Kind, Op, Program
from tuner.schedules.updates import Synchronization, SyncPolicy
from tuner.simulation import simulate
from tuner.timeline import Timeline

LAWS = settings(max_examples=5, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
EACH_SCHEME = pytest.mark.parametrize("scheme", RECIPES)
POLICIES: tuple[SyncPolicy, ...] = ("lazy", "eager", "eager_opt")


@st.composite
def simulated(draw: st.DrawFn, scheme: str) -> tuple[Timeline, OperationCosts]:
    """A timeline of a scheme under costs of all kinds that differ from stage to stage and link to link."""
    try:
        program = generate(**draw(variants(scheme)))
    except ScheduleError:
        reject()
    how = Synchronization(draw(st.sampled_from(POLICIES)), buckets=draw(st.integers(1, 3)))
    program = lower(program, Lowering(how))
    costs = uneven_costs(program, seed=draw(st.integers(0, 2**16)), lanes=draw(st.sampled_from([None, 1, 2])))
    return simulate(program, costs), costs


def uneven_costs(program: Program, *, seed: int, lanes: int | None) -> OperationCosts:
    """Costs of all kinds, drawn from a seed."""
    random, stages, depth = np.random.default_rng(seed), program.stages, program.depth
    backward = random.uniform(1.0, 3.0, stages)
    return OperationCosts(
        forward_s=random.uniform(0.5, 1.5, stages),
        backward_s=backward,
        weight_gradient_s=backward * random.uniform(0.2, 0.8, stages),
        recompute_s=np.zeros(stages),
        update_s=random.uniform(0.0, 1.0, stages),
        sync_s=random.uniform(0.0, 6.0, stages),
        latency_s=random.uniform(0.0, 0.3, (depth, depth)),
        seconds_per_byte=random.uniform(0.0, 1.0, (depth, depth)),
        message_bytes=random.uniform(0.0, 0.5, stages),
        fused_factor=0.9,
        lanes=lanes,
    )


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_no_makespan_is_below_its_bounds(scheme: str, data: st.DataObject) -> None:
    """Work of the busiest rank; one micro-batch through its pipe and back."""
    timeline, costs = data.draw(simulated(scheme))
    bounds = lower_bounds(timeline, costs)
    slack = 1 - 1e-9
    assert timeline.makespan_s >= bounds.busiest_rank_s * slack
    # A fused pair may take less than its two operations.
    shortest = costs.fused_factor if scheme == "dualpipe" else 1.0
    assert timeline.makespan_s >= bounds.longest_chain_s * shortest * slack


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_a_rank_does_one_thing_at_a_time_and_in_order(scheme: str, data: st.DataObject) -> None:
    """Collectives apart, which do not occupy it."""
    timeline, _ = data.draw(simulated(scheme))
    rank, computes = timeline.compiled.rank, timeline.computes
    for number in range(timeline.compiled.program.depth):
        events = np.flatnonzero(computes & (rank == number))
        assert (timeline.start_s[events[1:]] >= timeline.end_s[events[:-1]]).all()
        assert (timeline.end_s[events] >= timeline.start_s[events]).all()


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_every_step_starts_when_the_last_of_its_inputs_is_there(scheme: str, data: st.DataObject) -> None:
    """No sooner, and no later: the step before it, its messages, and the collectives of its round."""
    timeline, _ = data.draw(simulated(scheme))
    program, compiled = timeline.compiled.program, timeline.compiled
    columns, reduced = program.columns, ends_of_collectives(timeline)
    for event in np.flatnonzero(timeline.computes).tolist():
        before = NONE if event in compiled.begins else event - 1
        ready = [timeline.done_s[before]]
        ready += [timeline.arrival_s[inputs[event]] for inputs in compiled.inputs if inputs[event] != NONE]
        row = int(compiled.first[event])
        if columns.kind[row] == Kind.UPDATE:
            place = int(columns.rank[row]), int(columns.iteration[row]), int(columns.micro_batch[row])
            ready += reduced[place]
        assert timeline.start_s[event] == max(ready)


def ends_of_collectives(timeline: Timeline) -> dict[tuple[int, int, int], list[float]]:
    """Of every rank and round, all-gathers apart."""
    columns, ends = timeline.compiled.program.columns, {}
    for event in np.flatnonzero(~timeline.computes).tolist():
        row = int(timeline.compiled.first[event])
        place = int(columns.rank[row]), int(columns.iteration[row]), int(columns.micro_batch[row])
        ends.setdefault(place, []).append(float(timeline.end_s[event]))
    return ends


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_a_message_leaves_when_it_is_sent_and_posted_and_its_link_is_free(
    scheme: str, data: st.DataObject
) -> None:
    """One link for each ordered pair of ranks, occupied by one message at a time in the order of use."""
    timeline, costs = data.draw(simulated(scheme))
    compiled, transfers = timeline.compiled, timeline.compiled.transfers
    delay, occupied = transfer_times(compiled, costs)
    free: dict[tuple[int, int], float] = {}
    for transfer in np.stack(compiled.inputs, axis=1).ravel().tolist():
        if transfer == NONE:
            continue
        link = int(transfers.source[transfer]), int(transfers.target[transfer])
        sent, posted = (
            timeline.done_s[events[transfer]] for events in (transfers.sent_by, transfers.posted_by)
        )
        assert timeline.left_s[transfer] == max(sent, posted, free.get(link, 0.0))
        assert timeline.arrival_s[transfer] == timeline.left_s[transfer] + delay[transfer]
        free[link] = timeline.left_s[transfer] + occupied[transfer]


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_a_collective_starts_with_its_last_member_and_on_a_free_lane(
    scheme: str, data: st.DataObject
) -> None:
    """At most `lanes` of a rank run at once, first those that stand first."""
    timeline, costs = data.draw(simulated(scheme))
    instances = collectives_of(timeline)
    turns: dict[int, list[tuple[float, float, float]]] = {}
    for members in instances.values():
        starts = {timeline.start_s[event] for event in members}
        assert len(starts) == 1
        arrived = max(timeline.done_s[event] for event in members)
        assert min(starts) >= arrived
        for event in members:
            turns.setdefault(event, []).append((arrived, timeline.start_s[event], timeline.end_s[event]))
    if costs.lanes is None:
        assert all(start == arrived for ((arrived, start, _),) in turns.values())
        return
    for rank in range(timeline.compiled.program.depth):
        mine = [turns[event][0] for event in sorted(turns) if timeline.compiled.rank[event] == rank]
        for number, (_, start, end) in enumerate(mine):
            if end > start:
                running = [True for _, other, ending in mine[:number] if ending > start and ending > other]
                assert len(running) < costs.lanes


def collectives_of(timeline: Timeline) -> dict[tuple[int, ...], list[int]]:
    """The SYNC events of each collective."""
    columns, instances = timeline.compiled.program.columns, {}
    for event in np.flatnonzero(~timeline.computes).tolist():
        row = int(timeline.compiled.first[event])
        names = ("iteration", "micro_batch", "group", "part", "collective")
        instances.setdefault(tuple(int(getattr(columns, name)[row]) for name in names), []).append(event)
    return instances


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_the_critical_path_is_as_long_as_the_run(scheme: str, data: st.DataObject) -> None:
    """Its steps, and what it waits for messages and collectives, add to the end of the last step."""
    timeline, _ = data.draw(simulated(scheme))
    path = timeline.critical_path()
    events = np.array(path.events)
    own = timeline.computes[events]
    work = float((timeline.done_s[events] - timeline.start_s[events])[own].sum())
    last = float(timeline.end_s[timeline.computes].max())
    assert work + path.messages_s + path.collectives_s == pytest.approx(last, rel=1e-9)


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_makespans_and_peaks_are_those_of_the_oracle(scheme: str, data: st.DataObject) -> None:
    """Communication free and stages equal, told by plain loops over the same orders."""
    variant = data.draw(variants(scheme))
    if RECIPES[scheme].synchronous:
        variant["iterations"] = 1  # between iterations the updates wait for other ranks
    try:
        program = generate(**variant)
    except ScheduleError:
        reject()
    timeline = simulate(lower(program), OperationCosts.uniform(program))
    expected = oracle.makespan(program, oracle.unit_times(chunks=program.chunks))
    assert timeline.makespan_s == pytest.approx(float(expected), rel=1e-12)
    assert timeline.peak_live() / program.chunks == pytest.approx(oracle.peak_live(program))


HOPS = [("gpipe", d, n) for d in (2, 4, 7) for n in (1, 4, 8, 9)]
HOPS += [("dapple", d, d * k) for d in (2, 4, 8) for k in (1, 2, 4)]
HOPS += [("chimera", d, d) for d in (4, 6, 8, 16)]


@pytest.mark.parametrize(("scheme", "depth", "micro_batches"), HOPS)
@pytest.mark.parametrize("latency", [Fraction(1, 16), Fraction(1, 4)])
def test_hop_latency_adds_what_the_formulas_say(
    scheme: str, depth: int, micro_batches: int, latency: Fraction
) -> None:
    """GPipe 2(D − 1)c, 1F1B [2(D − 1)N/D + 2(D − 2)]c, Chimera (3D − 5)c: no head-of-line stall."""
    program = lower(generate(scheme, depth=depth, micro_batches=micro_batches))
    hops = {
        "gpipe": 2 * (depth - 1),
        "dapple": 2 * (depth - 1) * micro_batches // depth + 2 * (depth - 2),
        "chimera": 3 * depth - 5,
    }
    free = simulate(program, OperationCosts.uniform(program)).makespan_s
    slow = simulate(program, OperationCosts.uniform(program, hop_latency_s=float(latency))).makespan_s
    assert slow - free == hops[scheme] * latency


def test_receives_just_before_their_use_stall_chimera() -> None:
    """Which is why the lowering posts receives ahead: 16.7 at D = N = 4, c = 0.1."""
    program = generate("chimera", depth=4, micro_batches=4)
    costs = OperationCosts.uniform(program, hop_latency_s=0.1)
    ahead, late = (simulate(lower(program, Lowering(prefetch=p)), costs).makespan_s for p in (2, 0))
    assert ahead == pytest.approx(16.7)
    assert late == pytest.approx(16.8)


@pytest.mark.parametrize("scheme", [name for name, recipe in RECIPES.items() if recipe.synchronous])
@pytest.mark.parametrize("update_s", [0.0, 0.5])
def test_synchronous_iterations_follow_each_other(scheme: str, update_s: float) -> None:
    """Each takes as long as the first; ZB-V's ranks drain as they filled, and lose nothing between."""
    times = [0.0]
    for iterations in (1, 2, 3, 4):
        program = lower(generate(scheme, depth=4, micro_batches=8, iterations=iterations))
        times.append(simulate(program, OperationCosts.uniform(program, update_s=update_s)).makespan_s)
    held = RECIPES[scheme].replicas * RECIPES[scheme].chunks
    period = 24.0 + held * update_s if scheme == "zb_v" else times[1]
    assert np.diff(times)[1:] == pytest.approx(period)


@pytest.mark.parametrize("scheme", ["pipedream", "pipedream_2bw", "pipemare"])
@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_balanced_asynchronous_schedules_have_no_bubble(scheme: str, depth: int) -> None:
    """The period is N(F + B)."""
    ends = []
    for iterations in (3, 4, 5):
        program = lower(generate(scheme, depth=depth, micro_batches=8, iterations=iterations))
        costs = OperationCosts.uniform(program, forward_s=1.0, backward_s=1.5)
        ends.append(simulate(program, costs).makespan_s)
    assert np.diff(ends) == pytest.approx(8 * 2.5)


def test_a_fused_pair_takes_its_factor_and_both_inputs() -> None:
    """F&B at 0.75 of their sum; it starts when the later of its two messages is there."""
    program = lower(generate("dualpipe", depth=4, micro_batches=8))
    costs = replace(OperationCosts.uniform(program, hop_latency_s=0.5), fused_factor=0.75)
    timeline = simulate(program, costs)
    compiled = timeline.compiled
    fused = np.flatnonzero(compiled.second != NONE)
    assert (timeline.end_s[fused] - timeline.start_s[fused] == 0.75 * 3.0).all()
    both = np.flatnonzero(compiled.inputs[1] != NONE)
    assert set(both) <= set(fused)
    for inputs in compiled.inputs:
        assert (timeline.arrival_s[inputs[both]] <= timeline.start_s[both]).all()


def by_hand(first: list[Op], second: list[Op]) -> Program:
    """Stage 0 on rank 0 and stage 1 on rank 1, lowered by hand."""
    ranks = [tuple((op,) for op in first), tuple((op,) for op in second)]
    return Program("by hand", 2, 4, np.array([[0, 1]]), ranks, lowered=True)


def test_messages_queue_on_a_link_and_arrive_after_its_latency() -> None:
    """Four activations of 2 s each at latency 1: sent at 1, 2, 3, 4, they leave at 1, 3, 5, 7."""
    first = [op for m in range(4) for op in (Op(Kind.F, 0, 0, m), Op(Kind.SEND_F, 0, 0, m))]
    second = [Op(Kind.RECV_F, 0, 1, m) for m in range(4)] + [Op(Kind.F, 0, 1, m) for m in range(4)]
    program = by_hand(first, second)
    costs = replace(
        OperationCosts.uniform(program, hop_latency_s=1.0),
        message_bytes=np.array([2.0, 0.0]),
        seconds_per_byte=np.ones((2, 2)),
    )
    timeline = simulate(program, costs)
    assert timeline.left_s.tolist() == [1, 3, 5, 7]
    assert timeline.start_s[4:].tolist() == [4, 6, 8, 10]


def test_half_a_gradient_takes_half_as_long_on_its_link() -> None:
    """Backward halving sends each half by itself."""
    program = lower(generate("chimera", depth=4, micro_batches=8, scaling="halving"))
    costs = replace(
        OperationCosts.uniform(program), message_bytes=np.ones(4), seconds_per_byte=np.ones((4, 4))
    )
    timeline = simulate(program, costs)
    forward = timeline.compiled.transfers.forward
    took = timeline.arrival_s - timeline.left_s
    assert took[forward] == pytest.approx(1.0)
    assert took[~forward] == pytest.approx(0.5)


@pytest.mark.parametrize(("lanes", "end"), [(None, 7.0), (1, 15.0), (2, 11.0)])
def test_collectives_of_a_rank_share_its_lanes(lanes: int | None, end: float) -> None:
    """Three buckets of 4 s each, all ready at 3: side by side, one after the other, two at a time."""
    how = Synchronization("lazy", buckets=3)
    program = lower(generate("dapple", depth=1, micro_batches=1), Lowering(how))
    costs = replace(OperationCosts.uniform(program, sync_s=12.0, update_s=0.0), lanes=lanes)
    assert simulate(program, costs).makespan_s == end


def test_an_eager_collective_is_hidden_behind_computation() -> None:
    """1F1B, D = 2, N = 4: the last rank's all-reduce of 3 overlaps the drain, the first rank's is exposed."""
    times: dict[Any, float] = {}
    for policy in POLICIES:
        program = lower(generate("chimera", depth=4, micro_batches=4), Lowering(Synchronization(policy)))
        times[policy] = simulate(program, OperationCosts.uniform(program, sync_s=3.0)).makespan_s
    assert times["eager"] <= times["eager_opt"] <= times["lazy"] == 19.0


@EACH_SCHEME
def test_equal_inputs_give_equal_times(scheme: str) -> None:
    """Bit by bit."""
    program = lower(generate(scheme, depth=4, micro_batches=8))
    costs = uneven_costs(program, seed=1, lanes=2)
    one, other = simulate(program, costs), simulate(program, costs)
    assert (one.start_s == other.start_s).all()
    assert (one.end_s == other.end_s).all()
    assert set(program.columns.kind[one.compiled.first].tolist()) <= {*COMPUTE, Kind.SYNC, Kind.UPDATE}


def test_a_message_without_its_peer_is_an_error_of_the_schedule() -> None:
    """Whoever catches ScheduleError catches it too."""
    program = Program("by hand", 2, 1, np.array([[0, 1]]), (((Op(Kind.SEND_F, 0, 0, 0),),), ()), lowered=True)
    with pytest.raises(UnmatchedMessageError, match="has no peer"):
        compile_program(program)
    assert issubclass(UnmatchedMessageError, ScheduleError)
