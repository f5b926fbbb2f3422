"""Can two ranks of any program wait for each other's collectives, or reduce incomplete gradients?"""

from collections import defaultdict
from itertools import combinations
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.tuner.schedules.variants import variants
from tuner.errors import ScheduleError
from tuner.schedules.generators import generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.ordering import in_common_order
from tuner.schedules.program import Collective, Kind, Op, Program
from tuner.schedules.updates import Synchronization

COLLECTIVES = st.builds(
    Synchronization,
    policy=st.sampled_from(["lazy", "eager", "eager_opt"]),
    buckets=st.integers(1, 3),
    sharded=st.booleans(),
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A lowered program of any schedule, with and without tied ends, also in the order of NCCL."""
    asked: dict[str, Any] = draw(variants())
    how = draw(COLLECTIVES)
    try:
        compute = generate(asked.pop("scheme"), **asked)
    except ScheduleError:
        assume(False)
    if compute.stages > 1 and draw(st.booleans()):
        tied = ((0, compute.stages - 1),)
        how = Synchronization(how.policy, how.buckets, how.sharded, tied)
    lowered = lower(compute, Lowering(synchronization=how))
    return in_common_order(lowered) if draw(st.booleans()) else lowered


def ops_of(program: Program, rank: int) -> list[Op]:
    """Operations of a rank, in order."""
    return [op for step in program.ranks[rank] for op in step]


def collective(op: Op) -> tuple[int, ...]:
    """What two ranks call the same collective by."""
    return op.iteration, op.micro_batch, op.group, op.part, op.collective


@settings(max_examples=60, deadline=None)
@given(programs())
def test_two_ranks_start_their_common_collectives_in_one_order(program: Program) -> None:
    """For every pair of ranks: else each could wait in a group for the other."""
    orders = [
        list(dict.fromkeys(collective(op) for op in ops_of(program, rank) if op.kind == Kind.SYNC))
        for rank in range(program.depth)
    ]
    for one, other in combinations(orders, 2):
        common = set(one) & set(other)
        assert [name for name in one if name in common] == [name for name in other if name in common]


@settings(max_examples=60, deadline=None)
@given(programs())
def test_gradients_are_complete_before_they_are_reduced(program: Program) -> None:
    """No B or W of a stage follows its SYNC within a round, and each replica's bucket is reduced once."""
    for rank in range(program.depth):
        seen: dict[tuple[int, ...], int] = defaultdict(int)
        reduced: set[tuple[int, int, int]] = set()
        for op in ops_of(program, rank):
            number = op.micro_batch if program.updates == "micro_batch" else -1
            if op.kind == Kind.SYNC and op.collective != Collective.ALL_GATHER:
                seen[op.pipe, *collective(op)] += 1
                reduced.add((op.iteration, op.micro_batch, op.group))
            elif op.kind in {Kind.B, Kind.W}:
                assert (op.iteration, number, op.stage) not in reduced
        assert set(seen.values()) <= {1}


@settings(max_examples=60, deadline=None)
@given(programs())
def test_an_update_stands_behind_all_reductions_of_its_round(program: Program) -> None:
    """And before the gathering of what it has stepped; every stage that is held is updated once."""
    for rank in range(program.depth):
        updated: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for op in ops_of(program, rank):
            at = (op.iteration, op.micro_batch)
            if op.kind == Kind.UPDATE:
                updated[at].append((op.pipe, op.stage))
            elif op.kind == Kind.SYNC:
                assert (op.collective == Collective.ALL_GATHER) == (at in updated)
        held = sorted(zip(*((program.placement == rank).nonzero()), strict=True))
        assert all(sorted(places) == held for places in updated.values())
