"""Do the generators give the orders of torch's own, where torch has them?

Only the functions that list a rank's operations are called; the classes around them want process groups.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from tuner.schedules.generators import generate
from tuner.schedules.program import Kind, Program

schedules = pytest.importorskip("torch.distributed.pipelining.schedules")

KINDS = {"FORWARD": Kind.F, "FULL_BACKWARD": Kind.B, "BACKWARD_INPUT": Kind.I, "BACKWARD_WEIGHT": Kind.W}

Order = list[tuple[Kind, int, int]]
"""(kind, stage, micro-batch) in the order of a rank."""


def ours(program: Program) -> list[Order]:
    """The order of every rank."""
    return [[(op.kind, op.stage, op.micro_batch) for step in steps for op in step] for steps in program.ranks]


def theirs(actions: Iterable[Any]) -> Order:
    """The compute operations of one rank, without idle slots and collectives."""
    done = [action for action in actions if action is not None]
    return [
        (KINDS[action.computation_type.name], action.stage_index, action.microbatch_index)
        for action in done
        if action.computation_type.name in KINDS
    ]


def bare(name: str, **attributes: Any) -> Any:
    """A schedule of torch with nothing but what its order depends on."""
    schedule_class = getattr(schedules, name)
    schedule = schedule_class.__new__(schedule_class)
    vars(schedule).update(attributes)
    return schedule


def single(name: str, *, depth: int, micro_batches: int) -> list[Order]:
    """The orders of a schedule with one stage a rank."""
    schedule = bare(name, _num_stages=depth, _n_microbatches=micro_batches)
    return [theirs(row) for _, row in sorted(schedule._get_pipeline_order().items())]


def multiple(name: str, *, depth: int, micro_batches: int, chunks: int) -> list[Order]:
    """The orders of a schedule with several stages a rank, in rounds of D micro-batches."""
    schedule = bare(
        name,
        pp_group_size=depth,
        n_local_stages=chunks,
        num_stages=depth * chunks,
        _num_stages=depth * chunks,
        _n_microbatches=micro_batches,
        microbatches_per_round=min(depth, micro_batches),
    )
    return [theirs(schedule._calculate_single_rank_operations(rank)) for rank in range(depth)]


@pytest.mark.parametrize(("depth", "micro_batches"), [(1, 3), (2, 4), (4, 2), (8, 20)])
def test_gpipe_is_the_order_of_torch(depth: int, micro_batches: int) -> None:
    """Rank by rank."""
    program = generate("gpipe", depth=depth, micro_batches=micro_batches)
    assert ours(program) == single("ScheduleGPipe", depth=depth, micro_batches=micro_batches)


@pytest.mark.parametrize(("depth", "micro_batches"), [(1, 3), (2, 4), (4, 3), (4, 4), (8, 3), (8, 20)])
def test_dapple_is_the_order_of_torchs_1f1b(depth: int, micro_batches: int) -> None:
    """Rank by rank, once two defects of its listing are mended; its run has neither.

    The last rank has no warm-up, and its forwards are listed as 1..N instead of 0..N − 1. Other ranks warm up
    by D − 1 − s forwards even where N is less, of micro-batches that are not there.
    """
    *before, last = single("Schedule1F1B", depth=depth, micro_batches=micro_batches)
    assert [m for kind, _, m in last if kind == Kind.F] == list(range(1, micro_batches + 1))
    mended = [[op for op in row if op[2] < micro_batches] for row in before]
    mended.append([(kind, stage, m - (kind == Kind.F)) for kind, stage, m in last])
    assert ours(generate("dapple", depth=depth, micro_batches=micro_batches)) == mended


@pytest.mark.parametrize("chunks", [2, 3])
@pytest.mark.parametrize(("depth", "units"), [(1, 3), (2, 1), (4, 1), (4, 3), (8, 2)])
def test_interleaved_is_the_order_of_torch(depth: int, units: int, chunks: int) -> None:
    """Rank by rank, where D divides N."""
    count = depth * units
    program = generate("interleaved", depth=depth, micro_batches=count, chunks=chunks)
    assert ours(program) == multiple(
        "ScheduleInterleaved1F1B", depth=depth, micro_batches=count, chunks=chunks
    )


@pytest.mark.parametrize(("depth", "micro_batches"), [(1, 3), (2, 4), (4, 2), (4, 8), (8, 16), (8, 24)])
def test_zb_h1_is_the_order_of_torchs_zero_bubble_with_one_chunk(depth: int, micro_batches: int) -> None:
    """Rank by rank."""
    program = generate("zb_h1", depth=depth, micro_batches=micro_batches)
    name = "ScheduleInterleavedZeroBubble"
    assert ours(program) == multiple(name, depth=depth, micro_batches=micro_batches, chunks=1)


@pytest.mark.parametrize(
    ("depth", "micro_batches"), [(1, 1), (2, 1), (2, 5), (4, 3), (4, 8), (8, 16), (8, 40)]
)
def test_zb_v_is_the_order_of_torch(depth: int, micro_batches: int) -> None:
    """Rank by rank."""
    program = generate("zb_v", depth=depth, micro_batches=micro_batches)
    name = "ScheduleZBVZeroBubble"
    assert ours(program) == multiple(name, depth=depth, micro_batches=micro_batches, chunks=2)
