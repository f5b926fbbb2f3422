"""What does a common order of all transfers change, and what does it cost?"""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from tests.tuner.schedules.variants import variants
from tuner.errors import ScheduleError
from tuner.operation_costs import OperationCosts
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.messages import Message, message_of
from tuner.schedules.ordering import in_common_order
from tuner.schedules.program import RECEIVES, SENDS, Op, Program
from tuner.simulation import simulate

LAWS = settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def transfers_with(program: Program, rank: int) -> dict[int, list[Message]]:
    """What a rank transfers with each other one, in its own order."""
    lists: dict[int, list[Message]] = {}
    for step in program.ranks[rank]:
        for op in step:
            if op.kind in SENDS | RECEIVES:
                message = message_of(op)
                ends = {message.source(program), message.target(program)}
                (peer,) = ends - {rank}
                lists.setdefault(peer, []).append(message)
    return lists


def others(program: Program, rank: int) -> list[Op]:
    """Everything but the receives."""
    return [op for step in program.ranks[rank] for op in step if op.kind not in RECEIVES]


@pytest.mark.parametrize("scheme", RECIPES)
@LAWS
@given(data=st.data())
def test_both_ends_list_their_transfers_alike(scheme: str, data: st.DataObject) -> None:
    """Both ways together; nothing but receives moves, and nothing is lost."""
    variant = data.draw(variants(scheme)) | {"micro_batches": data.draw(st.sampled_from([1, 2, 4, 8, 16]))}
    try:
        program = lower(generate(**variant))
    except ScheduleError:
        reject()
    ordered = in_common_order(program)
    lists = [transfers_with(ordered, rank) for rank in range(program.depth)]
    for rank, peers in enumerate(lists):
        assert others(ordered, rank) == others(program, rank)
        assert Counter(ordered.ranks[rank]) == Counter(program.ranks[rank])
        for peer, messages in peers.items():
            assert messages == lists[peer][rank]


@pytest.mark.parametrize("scheme", RECIPES)
@pytest.mark.parametrize("latency", [0.0, 0.1, 1.0])
def test_a_common_order_is_never_faster(scheme: str, latency: float) -> None:
    """It may post a receive later, and nothing sooner."""
    for depth, micro_batches in ((2, 4), (4, 4), (4, 8), (6, 12)):
        try:
            program = lower(generate(scheme, depth=depth, micro_batches=micro_batches))
        except ScheduleError:
            continue
        costs = OperationCosts.uniform(program, hop_latency_s=latency)
        free = simulate(program, costs).makespan_s
        ordered = simulate(in_common_order(program), costs).makespan_s
        assert ordered >= free - 1e-9
        if not latency:
            assert ordered == pytest.approx(free)


@pytest.mark.parametrize("prefetch", [0, 1, 2, 3])
def test_the_common_order_does_not_depend_on_how_far_ahead_receives_stood(prefetch: int) -> None:
    """It is that of the values."""
    plain = generate("chimera", depth=4, micro_batches=8)
    ordered = in_common_order(lower(plain, Lowering(prefetch=prefetch)))
    lists = [transfers_with(ordered, rank) for rank in range(4)]
    assert lists == [transfers_with(in_common_order(lower(plain)), rank) for rank in range(4)]
