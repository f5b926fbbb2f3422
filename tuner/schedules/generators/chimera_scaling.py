"""Chimera for N > D with forwards in pairs: forward doubling and backward halving (SC'21, section 3.5)."""

from collections.abc import Iterator

from tuner.schedules.generators.recipe import Ranks
from tuner.schedules.program import Kind, Op, Step

MAIN, OTHER = 0, 1
"""Of its two pipes a rank is nearer to the start of its main one."""

Turn = tuple[int, str]
"""MAIN or OTHER, and what that pipe does next: FF, F or B."""


def doubling(depth: int, units: int) -> Ranks:
    """Units of 2D micro-batches: pairs (0, 1) down, (2, 3) up and so on; odd N/D ends with a unit of D."""
    doubled, basic = divmod(units, 2)
    taken = 2 * depth * doubled
    order = [
        [m for m in range(taken) if m // 2 % 2 == pipe]
        + list(range(taken + pipe * depth // 2, taken + (pipe + basic) * depth // 2))
        for pipe in range(2)
    ]
    ranks: Ranks = []
    for rank in range(depth):
        forwards, backwards = [iter(row) for row in order], [iter(row) for row in order]
        row: list[Step] = []
        for pipe, stage, turn in _turns(depth, rank, units=["FF"] * doubled + ["F"] * basic):
            if turn == "B":
                row.append((Op(Kind.B, pipe, stage, next(backwards[pipe])),))
            else:
                row.extend((Op(Kind.F, pipe, stage, next(forwards[pipe])),) for _ in turn)
        ranks.append(row)
    return ranks


def halving(depth: int, units: int) -> Ranks:
    """The order of doubling, a pair being the halves of one micro-batch: even ones go down, odd ones up."""
    ranks: Ranks = []
    for rank in range(depth):
        forwards = [iter(range(pipe, units * depth, 2)) for pipe in range(2)]
        halves = [
            iter([(m, half) for m in range(pipe, units * depth, 2) for half in (0, 1)]) for pipe in range(2)
        ]
        row: list[Step] = []
        for pipe, stage, turn in _turns(depth, rank, units=["FF"] * units):
            if turn == "B":
                m, half = next(halves[pipe])
                row.append((Op(Kind.B, pipe, stage, m, half, 2),))
            else:
                row.append((Op(Kind.F, pipe, stage, next(forwards[pipe])),))
        ranks.append(row)
    return ranks


def _turns(depth: int, rank: int, *, units: list[str]) -> Iterator[tuple[int, int, str]]:
    """(pipe, stage, turn) of a rank; pipe 0 goes down, pipe 1 up."""
    held = (rank, depth - 1 - rank)
    main = 0 if rank < depth // 2 else 1
    for which, turn in _loops(depth // 2, held[main], units=units):
        pipe = main if which == MAIN else 1 - main
        yield pipe, held[pipe], turn


def _loops(half: int, stage: int, *, units: list[str]) -> Iterator[Turn]:
    """The counted loops of a rank whose main pipe's `stage` it holds; each unit is named by its forwards.

    The last backwards of a unit alternate with the first forwards of the next.
    """
    a, b = half - stage, stage
    start: list[Turn] = []
    for forward in units:
        yield from [*start, (MAIN, forward)] * a
        yield from [(OTHER, forward), (MAIN, forward)] * b
        yield from [(OTHER, forward), (OTHER, "B")] * a
        yield from [(MAIN, "B"), (OTHER, "B")] * (b + half if forward == "FF" else b)
        start = [(MAIN, "B")]
    yield from start * a
