"""Is a sent value let go as early as is sure, and never before?"""

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from executor.running.releases import release_points
from tests.executor.transport.walking import lowered
from tests.tuner.schedules.variants import variants
from tuner.errors import ScheduleError
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import lower
from tuner.schedules.messages import Message, message_of, needed_by
from tuner.schedules.program import SENDS, Kind, Program

LAWS = settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@pytest.mark.parametrize("scheme", RECIPES)
@LAWS
@given(data=st.data())
def test_every_send_is_let_go_at_the_first_proof(scheme: str, data: st.DataObject) -> None:
    """A proof is a message that the receiver sent after a step that used ours; no earlier one is one."""
    variant = data.draw(variants(scheme)) | {"micro_batches": data.draw(st.sampled_from([1, 2, 4, 8]))}
    try:
        program = lower(generate(**variant))
    except ScheduleError:
        reject()
    for rank in range(program.depth):
        point_of = {m: point for point, ms in release_points(program, rank).items() for m in ms}
        sent = [message_of(op) for step in program.ranks[rank] for op in step if op.kind in SENDS]
        assert point_of == {m: proof for m in sent if (proof := _first_proof(program, rank, m)) is not None}


@pytest.mark.parametrize("scheme", RECIPES)
def test_a_proof_comes_after_the_send(scheme: str) -> None:
    """A rank never lets go of what it has yet to send."""
    program = lowered(scheme, depth=4, micro_batches=8, iterations=2)
    for rank in range(4):
        assert min(_kept(program, rank)) >= 0


@pytest.mark.parametrize("scheme", ["dapple", "chimera", "zb_h1", "interleaved", "pipedream"])
def test_what_is_kept_does_not_grow_with_the_micro_batches(scheme: str) -> None:
    """Unless nothing comes back: the gradients of the last D micro-batches wait for the end."""
    most = [
        [max(_kept(lowered(scheme, depth=4, micro_batches=n), rank)) for rank in range(4)] for n in (32, 96)
    ]
    assert most[0] == most[1]


def test_gpipe_keeps_no_activation_beyond_the_first_gradient_that_comes_back() -> None:
    """All of them have been used by then; before it nothing is known of any."""
    program = lowered("gpipe", depth=4, micro_batches=16)
    for rank in range(3):
        ((point, released),) = release_points(program, rank).items()
        assert point.micro_batch == min(m.micro_batch for m in _awaited(program, rank) if not m.forward)
        assert sorted(m.micro_batch for m in released) == list(range(16))


def _awaited(program: Program, rank: int) -> list[Message]:
    """What a rank waits for, in its order."""
    taken = (needed_by(op, program) for step in program.ranks[rank] for op in step)
    return [message for message in taken if message is not None]


def _first_proof(program: Program, rank: int, message: Message) -> Message | None:
    """By looking at everything."""
    used, sent_after = False, set()
    for step in program.ranks[message.target(program)]:
        if used:
            sent_after |= {message_of(op) for op in step if op.kind in SENDS}
        used = used or any(needed_by(op, program) == message for op in step)
    return next((candidate for candidate in _awaited(program, rank) if candidate in sent_after), None)


def _kept(program: Program, rank: int) -> list[int]:
    """How many sent values a rank keeps after each operation; below 0 once one went before it was sent."""
    points = release_points(program, rank)
    kept: set[Message] = set()
    counts = [0]
    for op in (op for step in program.ranks[rank] for op in step):
        if op.kind in SENDS:
            kept.add(message_of(op))
        elif op.kind <= Kind.I and (taken := needed_by(op, program)) is not None:
            over = set(points.get(taken, ()))
            counts.append(-1 if over - kept else 0)
            kept -= over
        counts.append(len(kept))
    return counts
