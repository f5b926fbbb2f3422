"""Is a program refused over NCCL exactly where its ranks would get the wrong data, or wait in a circle?"""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from executor.errors import ConfigurationError
from executor.transport.orders import check_common_order, check_one_by_one, fused_calls
from tests.executor.transport.walking import lowered
from tests.tuner.schedules.variants import variants
from tuner.errors import ScheduleError
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import lower
from tuner.schedules.messages import Message
from tuner.schedules.ordering import in_common_order
from tuner.schedules.program import Program

LAWS = settings(max_examples=10, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


@pytest.mark.parametrize("scheme", RECIPES)
@LAWS
@given(data=st.data())
def test_a_program_in_common_order_is_matched_rightly(scheme: str, data: st.DataObject) -> None:
    """Both ranks of every pair fuse the same transfers in the same order, whatever the schedule."""
    check_common_order(in_common_order(_any(scheme, data)))


@pytest.mark.parametrize("scheme", RECIPES)
@LAWS
@given(data=st.data())
def test_what_is_refused_is_what_does_not_end(scheme: str, data: st.DataObject) -> None:
    """Walking all ranks with one call in progress on each agrees, ordered or not."""
    program = _any(scheme, data)
    for asked in (program, in_common_order(program)):
        assert _is_taken(asked) == _ends(asked)


@pytest.mark.parametrize("scheme", RECIPES)
@LAWS
@given(data=st.data())
def test_every_schedule_in_common_order_runs_one_transfer_after_another(
    scheme: str, data: st.DataObject
) -> None:
    """Also where a circle would go over several ranks: interleaved chunks, several pairs of pipes."""
    check_one_by_one(in_common_order(_any(scheme, data)))


@pytest.mark.parametrize("scheme", ["chimera", "dapple", "zb_h1", "interleaved"])
def test_a_program_in_another_order_is_refused(scheme: str) -> None:
    """Early receives alone make two orders; the error names two ranks and the first transfer that differs."""
    program = lowered(scheme, depth=4, micro_batches=8)
    with pytest.raises(ConfigurationError, match=r"ranks \d and \d list .* of pipe \d.*in_common_order"):
        check_common_order(program)


def test_ranks_that_would_wait_in_a_circle_are_named() -> None:
    """Each with the transfer that it would be stuck at."""
    program = lowered("dapple", depth=3, micro_batches=8)
    with pytest.raises(
        ConfigurationError, match=r"wait for each other: .*rank \d at the (activation|gradient)"
    ):
        check_one_by_one(program)


def _any(scheme: str, data: st.DataObject) -> Program:
    variant: dict[str, Any] = data.draw(variants(scheme))
    try:
        return lower(generate(**variant | {"micro_batches": data.draw(st.sampled_from([1, 2, 4, 8, 16]))}))
    except ScheduleError:
        reject()


def _is_taken(program: Program) -> bool:
    try:
        check_one_by_one(program)
    except ConfigurationError:
        return False
    return True


def _ends(program: Program) -> bool:
    """Start each rank's first call that is not over, until nothing changes."""
    calls = [list(fused_calls(program, rank)) for rank in range(program.depth)]
    started: dict[Message, set[int]] = {}
    at = [0] * program.depth
    moved = True
    while moved:
        moved = False
        for rank, of_rank in enumerate(calls):
            while at[rank] < len(of_rank):
                call = of_rank[at[rank]]
                for message in call:
                    moved |= rank not in started.setdefault(message, set())
                    started[message].add(rank)
                if any(len(started[message]) < 2 for message in call):
                    break
                at[rank] += 1
                moved = True
    return all(at[rank] == len(of_rank) for rank, of_rank in enumerate(calls))
