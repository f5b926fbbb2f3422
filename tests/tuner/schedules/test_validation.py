"""Does the validation name what is wrong with a program?"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tuner.errors import ScheduleError
from tuner.schedules.generators import generate
from tuner.schedules.lowering import lower
from tuner.schedules.program import Kind, Op, Program, Step
from tuner.schedules.validation import validate

Edit = Callable[[list[list[Step]]], None]


def with_ranks(program: Program, ranks: Sequence[Sequence[Step]]) -> Program:
    """The program with other steps."""
    return Program(program.scheme, program.depth, program.micro_batches, program.placement, ranks)


def edited(program: Program, edit: Edit) -> Program:
    """The program after a change of its steps."""
    ranks = [list(steps) for steps in program.ranks]
    edit(ranks)
    return with_ranks(program, ranks)


def replaced(rank: int, position: int, **fields: Any) -> Edit:
    """Changes fields of one operation."""

    def edit(ranks: list[list[Step]]) -> None:
        ranks[rank][position] = (ranks[rank][position][0]._replace(**fields),)

    return edit


def swapped(rank: int, one: int, other: int) -> Edit:
    """Exchanges two steps."""

    def edit(ranks: list[list[Step]]) -> None:
        row = ranks[rank]
        row[one], row[other] = row[other], row[one]

    return edit


def repeated(rank: int, position: int) -> Edit:
    """Runs a step once more, at the end."""
    return lambda ranks: ranks[rank].append(ranks[rank][position])


def removed(rank: int, position: int) -> Edit:
    """Leaves a step out."""
    return lambda ranks: ranks[rank].__delitem__(position)


def fused(rank: int, position: int) -> Edit:
    """Makes one step of a step and the next."""

    def edit(ranks: list[list[Step]]) -> None:
        row = ranks[rank]
        row[position : position + 2] = [row[position] + row[position + 1]]

    return edit


DAPPLE = [
    (repeated(1, 0), r"rank 1: 1F0 \(pipe 0\) comes after its B"),
    (replaced(0, 1, micro_batch=0), r"rank 0: 0F0 \(pipe 0\) comes twice"),
    (replaced(0, 1, micro_batch=9), r"rank 0: 0F9 \(pipe 0\) of iteration 0 is not of this program"),
    (replaced(0, 1, iteration=1), r"rank 0: 0F1 \(pipe 0\) of iteration 1 is not of this program"),
    (replaced(0, 1, pipe=1), r"rank 0: 0F1 \(pipe 1\) of iteration 0 is not of this program"),
    (replaced(0, 0, stage=1), r"rank 0: 1F0 \(pipe 0\) belongs on rank 1"),
    (replaced(0, 0, parts=2), r"0F0.0 \(pipe 0\) is in 2 parts, and only a whole backward can be"),
    (swapped(1, 0, 1), r"rank 1: 1B0 \(pipe 0\) comes before its F"),
    (removed(1, -1), r"micro-batch 3 at stage 1 in iteration 0 has no B \(pipe 0\)"),
    (replaced(1, -1, parts=2), r"micro-batch 3 at stage 1 .* has no whole B: its parts do not add to one"),
    (replaced(1, -1, kind=Kind.I), r"micro-batch 3 at stage 1 in iteration 0 has no W \(pipe 0\)"),
    (replaced(1, -1, kind=Kind.W), r"rank 1: 1W3 \(pipe 0\) comes before its I"),
    (fused(1, 0), r"rank 1: 1B0 \(pipe 0\) is fused with its own F"),
    (lambda ranks: ranks.append(ranks[0]), "there are operations on rank 2, and D = 2"),
]


@pytest.mark.parametrize(("edit", "message"), DAPPLE, ids=[message for _, message in DAPPLE])
def test_a_broken_program_is_refused_by_name(edit: Edit, message: str) -> None:
    """Each rule, broken once in 1F1B with D = 2, N = 4."""
    program = generate("dapple", depth=2, micro_batches=4)
    validate(program)
    with pytest.raises(ScheduleError, match=message):
        validate(edited(program, edit))


def test_a_backward_is_whole_or_split() -> None:
    """An I beside a B of the same micro-batch, in either order, is refused."""
    program = generate("zb_h1", depth=1, micro_batches=1)
    for extra in (1, 2):
        steps = list(program.ranks[0])
        steps.insert(extra, (Op(Kind.B, 0, 0, 0),))
        with pytest.raises(ScheduleError, match="both whole and split"):
            validate(with_ranks(program, [steps]))


def test_a_micro_batch_stays_in_its_pipe() -> None:
    """A micro-batch that passes some stages of one pipe and some of the other is refused."""
    program = generate("gems", depth=2, micro_batches=1)
    moved = [list(steps) for steps in program.ranks]
    moved[1], extra = [], moved[1]
    moved[0] += [(step[0]._replace(pipe=1),) for step in extra]
    with pytest.raises(ScheduleError, match=r"1F0 .*: the micro-batch came through pipe 0"):
        validate(with_ranks(program, moved))


def test_a_placement_gives_every_rank_its_chunks() -> None:
    """A rank without a stage is refused."""
    program = generate("dapple", depth=2, micro_batches=1)
    with pytest.raises(ScheduleError, match="rank 0 holds 2 stages of pipe 0, not 1"):
        validate(Program("dapple", 2, 1, program.placement * 0, program.ranks))


def test_lowered_programs_are_valid_too() -> None:
    """Messages, collectives and updates are passed over."""
    validate(lower(generate("chimera", depth=4, micro_batches=8, scaling="halving")))
