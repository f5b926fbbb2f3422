"""Does the dry run accept what can run, and refuse what cannot by the names of the blocked operations?"""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st

from tests.tuner.schedules.variants import variants
from tuner.errors import DeadlockError, ScheduleError
from tuner.operation_costs import OperationCosts
from tuner.schedules.dry_run import dry_run
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.ordering import in_common_order
from tuner.schedules.program import RECEIVES, SENDS, Kind, Op, Program, Step, pack, single
from tuner.schedules.updates import Synchronization
from tuner.simulation import simulate

LAWS = settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
EACH_SCHEME = pytest.mark.parametrize("scheme", RECIPES)


def both_send_first() -> Program:
    """Two ranks that hold stages 0 and 1, and 1 and 2: each sends before it receives.

    r0: F of stage 0, 0SEND_F1, 2RECV_F0; r1: F of stage 1, 1SEND_F0, 1RECV_F1, micro-batches 0 and 1.
    """
    first = [Op(Kind.F, 0, 0, 1), Op(Kind.SEND_F, 0, 0, 1), Op(Kind.RECV_F, 0, 2, 0), Op(Kind.F, 0, 2, 0)]
    other = [Op(Kind.F, 0, 1, 0), Op(Kind.SEND_F, 0, 1, 0), Op(Kind.RECV_F, 0, 1, 1), Op(Kind.F, 0, 1, 1)]
    start = [Op(Kind.F, 0, 0, 0), Op(Kind.SEND_F, 0, 0, 0)]
    end = [Op(Kind.RECV_F, 0, 1, 0)]
    ranks = [single(start + first), single(end + other)]
    return Program("by hand", 2, 2, np.array([[0, 1, 0]]), ranks, lowered=True)


def test_two_ranks_that_both_send_first_block_each_other() -> None:
    """Where calls return when complete, under rendezvous: both ranks are named at their SEND."""
    with pytest.raises(DeadlockError, match=r"rank 0 at 0SEND_F1 \(pipe 0\); rank 1 at 1SEND_F0 \(pipe 0\)"):
        dry_run(both_send_first(), "rendezvous", blocking=True)
    with pytest.raises(DeadlockError, match=r"rank 0 at 0SEND_F1 .*; rank 1 at 1SEND_F0"):
        dry_run(both_send_first(), "ordered", blocking=True)


def test_transfers_in_order_never_meet_when_both_ranks_send_first() -> None:
    """One queue for each pair of ranks: rank 0 has its send in front, rank 1 its own."""
    with pytest.raises(DeadlockError, match=r"ordered: .*rank 0 at 2F0 .*; rank 1 at 1F1"):
        dry_run(both_send_first(), "ordered")


@pytest.mark.parametrize(
    ("mode", "blocking"), [("rendezvous", False), ("buffered", False), ("buffered", True)]
)
def test_sends_that_go_on_by_themselves_may_come_first(
    mode: Literal["rendezvous", "buffered"], blocking: bool
) -> None:
    """Non-blocking rendezvous and buffers accept the same program."""
    dry_run(both_send_first(), mode, blocking=blocking)


@st.composite
def programs(draw: st.DrawFn, scheme: str, *, depths: tuple[int, int], most: int) -> Program:
    """A program of a scheme."""
    variant = draw(variants(scheme))
    variant |= {"depth": draw(st.integers(*depths)), "micro_batches": draw(st.integers(1, most))}
    try:
        program = generate(**variant)
    except ScheduleError:
        reject()
    return program


@EACH_SCHEME
@LAWS
@given(data=st.data(), policy=st.sampled_from(["lazy", "eager", "eager_opt"]))
def test_every_lowering_runs_on_every_transport(scheme: str, policy: Any, data: st.DataObject) -> None:
    """Buffered and rendezvous as it is; ordered once its transfers have a common order."""
    program = data.draw(programs(scheme, depths=(1, 8), most=16))
    program = lower(program, Lowering(Synchronization(policy, buckets=2)))
    for mode in ("buffered", "rendezvous"):
        dry_run(program, mode)
    ordered = in_common_order(program)
    for mode in ("buffered", "rendezvous", "ordered"):
        dry_run(ordered, mode)


@pytest.mark.parametrize("scheme", RECIPES)
@pytest.mark.parametrize("depth", range(2, 9))
def test_receives_just_before_their_use_do_not_block_a_rendezvous(scheme: str, depth: int) -> None:
    """D in 2..8, N in 1..16, as long as sends go on by themselves."""
    for micro_batches in range(1, 17):
        try:
            program = generate(scheme, depth=depth, micro_batches=micro_batches)
        except ScheduleError:
            continue
        dry_run(lower(program, Lowering(prefetch=0)))


@pytest.mark.parametrize("scheme", ["dapple", "chimera", "interleaved", "zb_v"])
def test_receives_just_before_their_use_block_where_calls_wait(scheme: str) -> None:
    """In-order blocking calls need another lowering: the reason why communication does not block a rank."""
    program = lower(generate(scheme, depth=4, micro_batches=8), Lowering(prefetch=0))
    with pytest.raises(DeadlockError, match="rendezvous: blocked for ever: rank 0 at "):
        dry_run(program, "rendezvous", blocking=True)


def test_only_what_is_sent_one_way_at_a_time_runs_with_blocking_calls() -> None:
    """GPipe has all forwards before all backwards, GEMS one micro-batch at a time."""
    for scheme in ("gpipe", "gems"):
        dry_run(lower(generate(scheme, depth=4, micro_batches=8), Lowering(prefetch=0)), blocking=True)


Edit = Callable[[list[list[Step]]], None]


def edited(program: Program, edit: Edit) -> Program:
    """A lowered program after a change of its steps."""
    ranks = [list(steps) for steps in program.ranks]
    edit(ranks)
    return program.lowered_to(pack(ranks))


def position(steps: list[Step], kind: Kind, number: int = 0) -> int:
    """Where the number-th operation of a kind stands."""
    return [at for at, step in enumerate(steps) if step[0].kind == kind][number]


def without(rank: int, kind: Kind, number: int = 0) -> Edit:
    """Leaves a step out."""
    return lambda ranks: ranks[rank].__delitem__(position(ranks[rank], kind, number))


def exchanged(rank: int, one: tuple[Kind, int], other: tuple[Kind, int]) -> Edit:
    """Lets two steps change places."""

    def edit(ranks: list[list[Step]]) -> None:
        row = ranks[rank]
        here, there = position(row, *one), position(row, *other)
        row[here], row[there] = row[there], row[here]

    return edit


CHIMERA = lower(generate("chimera", depth=4, micro_batches=4))
BROKEN = [
    ("rendezvous", without(1, Kind.RECV_F), r"rank 1 at 1F0 \(pipe 0\)"),
    ("buffered", without(1, Kind.RECV_F), r"rank 1 at 1F0 \(pipe 0\)"),
    ("rendezvous", without(0, Kind.SEND_F), r"rank 1 at 1F0 \(pipe 0\)"),
    ("rendezvous", exchanged(1, (Kind.RECV_F, 0), (Kind.F, 0)), r"rank 1 at 1F0 \(pipe 0\)"),
    ("buffered", exchanged(0, (Kind.F, 0), (Kind.SEND_F, 0)), r"rank 0 at 0SEND_F0 \(pipe 0\)"),
    ("ordered", exchanged(0, (Kind.SEND_F, 0), (Kind.SEND_F, 1)), r"ordered: .*rank 1 at 1F0 \(pipe 0\)"),
    (
        "rendezvous",
        without(0, Kind.SYNC),
        r"SYNC\(group 3, .*\) waits for rank 0, which does not join",
    ),
    ("buffered", without(2, Kind.SYNC, 1), r"SYNC\(group 1, .*\) waits for rank 2, which does not join"),
    (
        "rendezvous",
        exchanged(1, (Kind.SYNC, 0), (Kind.SYNC, 1)),
        r"rank 1 at UPDATE\(pipe 1, stage 2\); rank 2 at UPDATE\(pipe 0, stage 2\)",
    ),
]


@pytest.mark.parametrize(("mode", "edit", "message"), BROKEN)
def test_a_broken_program_is_refused_by_name(mode: Any, edit: Edit, message: str) -> None:
    """Chimera with D = N = 4 after one mistake."""
    with pytest.raises(DeadlockError, match=message):
        dry_run(edited(in_common_order(CHIMERA) if mode == "ordered" else CHIMERA, edit), mode)


def test_a_message_that_nobody_uses_never_completes() -> None:
    """The end of the iteration waits for it."""
    program = Program("by hand", 2, 1, np.array([[0, 1]]), [single([Op(Kind.SEND_F, 0, 0, 0)]), ()])
    with pytest.raises(DeadlockError, match=r"never complete: rank 0 at 0SEND_F0 \(pipe 0\)"):
        dry_run(program, "buffered")


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_a_program_without_one_of_its_messages_is_refused(scheme: str, data: st.DataObject) -> None:
    """Whichever SEND or RECV is dropped."""
    program = lower(data.draw(programs(scheme, depths=(2, 6), most=12)))
    places = [
        (rank, at)
        for rank, steps in enumerate(program.ranks)
        for at, step in enumerate(steps)
        if step[0].kind in SENDS | RECEIVES
    ]
    rank, at = data.draw(st.sampled_from(places))
    broken = edited(program, lambda ranks: ranks[rank].__delitem__(at))
    with pytest.raises(DeadlockError, match=r"blocked for ever: rank|never complete: rank"):
        dry_run(broken)


@EACH_SCHEME
@LAWS
@given(data=st.data())
def test_what_the_dry_run_accepts_can_be_simulated(scheme: str, data: st.DataObject) -> None:
    """Whatever two steps of a rank change places; what the simulation refuses, the dry run refuses."""
    program = lower(data.draw(programs(scheme, depths=(2, 6), most=12)))
    rank = data.draw(st.sampled_from([r for r in range(program.depth) if len(program.ranks[r]) > 1]))
    last = len(program.ranks[rank]) - 1
    one = data.draw(st.integers(0, last))
    other = data.draw(st.integers(max(0, one - 8), min(last, one + 8)))

    def edit(ranks: list[list[Step]]) -> None:
        row = ranks[rank]
        row[one], row[other] = row[other], row[one]

    changed = edited(program, edit)
    try:
        dry_run(changed)
    except DeadlockError:
        event("refused")
    else:
        event("accepted")
        simulate(changed, OperationCosts.uniform(changed))


def test_the_simulation_refuses_a_receive_behind_its_use() -> None:
    """It would never be posted."""
    late = edited(CHIMERA, exchanged(1, (Kind.RECV_F, 0), (Kind.F, 0)))
    with pytest.raises(DeadlockError, match=r"rank 1 at 1F0 \(pipe 0\)"):
        simulate(late, OperationCosts.uniform(late))
