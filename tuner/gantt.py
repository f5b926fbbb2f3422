"""What does a timeline look like in a terminal? Two lines for each rank, time from left to right.

The upper line has micro-batch numbers, the lower one what runs: a letter and a fill for each operation. Where
every cell has room for both, they share one line. Every column shows what runs at its middle.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import floor, log10

import numpy as np

from tuner.gantt_cells import LETTERS, Cell, Lane, compute_lane, sync_lanes
from tuner.schedules.program import Kind
from tuner.timeline import Timeline

MAX_RANKS = 64
"""Ranks that are shown; of more the first and the last half of these."""

_LABEL = 8
_WIDEST_TICK = 6
_COLOURS = {
    "F": "44;97", "f": "46;30", "B": "42;30", "b": "43;30", "I": "42;30", "i": "43;30", "W": "100;97",
    "w": "47;30", "R": "44;97", "r": "46;30", "U": "7", "u": "7", "S": "45;97",
}  # fmt: skip
"""ANSI colours by letter: forwards blue and cyan, backwards green and yellow, the second pipe brighter."""

Run = tuple[Cell | None, int]
"""A cell, or idleness, and its columns."""


@dataclass(frozen=True)
class Scale:
    """How time becomes columns."""

    columns_per_second: float
    width: int
    """Columns of the whole makespan."""
    readable: bool
    """Whether every operation has a column of its own."""


def gantt(timeline: Timeline, *, columns: int, colour: bool = False) -> list[str]:
    """Lines of at most `columns` signs, and a legend; `colour` adds ANSI colours."""
    scale = _scale(timeline, max(20, columns - _LABEL))
    shown = _shown_ranks(timeline.compiled.program.depth)
    lanes = {rank: compute_lane(timeline, rank) for rank in shown}
    merged = scale.readable and all(_has_room(cell, scale) for lane in lanes.values() for cell in lane)
    lines = [_axis(timeline.makespan_s, scale, columns)]
    for before, rank in zip([-1, *shown], shown, strict=False):
        if rank - before > 1:
            lines.append(f"{'...':{_LABEL}}{rank - before - 1:,} ranks are not shown")
        drawn = _draw(f"rank {rank}", lanes[rank], scale, merged=merged)
        for lane in sync_lanes(timeline, rank):
            drawn += _draw("  sync", lane, scale, merged=True, idle=" ")
        lines += [_line(label, pieces, colour=colour) for label, pieces in drawn]
    return [*lines, "", *_legend(timeline, scale, merged=merged)]


def _shown_ranks(depth: int) -> list[int]:
    if depth <= MAX_RANKS:
        return list(range(depth))
    return [*range(MAX_RANKS // 2), *range(depth - MAX_RANKS // 2, depth)]


def _scale(timeline: Timeline, width: int) -> Scale:
    """Whole columns for the shortest operation where that fits and all times are multiples of it."""
    end = timeline.end_s[timeline.computes]
    lengths = end - timeline.start_s[timeline.computes]
    makespan = timeline.makespan_s
    tick = float(lengths[lengths > 0].min(initial=makespan))
    columns = min(_WIDEST_TICK, floor(width * tick / makespan))
    ticks = np.append(end, makespan) / tick
    if columns >= 1 and np.allclose(ticks, np.round(ticks), rtol=0, atol=1e-6):
        return Scale(columns / tick, round(makespan / tick) * columns, readable=True)
    return Scale(width / makespan, width, readable=tick * width / makespan >= 1)


def _has_room(cell: Cell, scale: Scale) -> bool:
    room = floor((cell.end - cell.start) * scale.columns_per_second + 1e-6)
    return len(cell.letters) + len(cell.number) <= room


Pieces = list[tuple[str, str]]
"""Text and the letter that gives its colour."""


def _draw(label: str, lane: Lane, scale: Scale, *, merged: bool, idle: str = ".") -> list[tuple[str, Pieces]]:
    """The lines of a lane: numbers and letters, in one or in two."""
    letters: Pieces = []
    numbers: Pieces = []
    for cell, n in _runs(lane, scale):
        if cell is None:
            letters.append((idle * n, ""))
            numbers.append((" " * n, ""))
        else:
            text = cell.letters + cell.number * merged
            letters.append((text[:n].ljust(n, cell.fill), cell.letters[0]))
            numbers.append((f"{cell.number if len(cell.number) <= n else '':{n}}", cell.letters[0]))
    if merged or not scale.readable:
        return [(label, letters)]
    return [(label, numbers), ("", letters)]


def _runs(lane: Lane, scale: Scale) -> Iterator[Run]:
    """Neighbouring columns that show the same."""
    middles = (np.arange(scale.width) + 0.5) / scale.columns_per_second
    index = np.searchsorted([cell.start for cell in lane], middles, side="right") - 1
    ends = np.array([cell.end for cell in lane] or [0.0])
    index = np.where((index >= 0) & (ends[index] > middles), index, -1)
    for number, same in groupby(index.tolist()):
        yield (lane[number] if number >= 0 else None), len(list(same))


def _line(label: str, pieces: Pieces, *, colour: bool) -> str:
    if colour:
        pieces = [(f"\x1b[{_COLOURS[key]}m{text}\x1b[0m" if key else text, key) for text, key in pieces]
    return f"{label:{_LABEL}}{''.join(text for text, _ in pieces)}".rstrip()


def _axis(makespan: float, scale: Scale, columns: int) -> str:
    """Times at round distances of at least eight columns."""
    least = 8 / scale.columns_per_second
    size = 10.0 ** floor(log10(least))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= least)
    line = f"{'time':{_LABEL}}"
    for number in range(floor(makespan / step * (1 + 1e-9)) + 1):
        at = _LABEL + round(number * step * scale.columns_per_second)
        text = f"{number * step:g}"
        if at + len(text) <= columns:
            line = f"{line:{at}}{text}"
    return line


def _legend(timeline: Timeline, scale: Scale, *, merged: bool) -> Iterator[str]:
    program = timeline.compiled.program
    words = {
        Kind.F: "forward", Kind.B: "backward", Kind.I: "input gradient", Kind.W: "weight gradient",
        Kind.RECOMPUTE: "recomputation", Kind.UPDATE: "optimizer step",
    }  # fmt: skip
    lengths = timeline.end_s - timeline.start_s
    first, second = timeline.compiled.first, timeline.compiled.second
    kinds = program.columns.kind
    present = set(kinds[first[lengths > 0]].tolist()) | set(kinds[second[second >= 0]].tolist())
    told = [f"{LETTERS[kind]} {word}" for kind, word in words.items() if kind in present]
    if program.pipes > 1:
        told.append("lower case: pipes that run up")
    elif program.stages > program.depth:
        told.append("lower case: odd chunks")
    if Kind.SYNC in present:
        told.append("S gradient collective of a stage")
    yield "; ".join([*told, ". idle"])
    if merged:
        where = "a number is the micro-batch"
    elif scale.readable:
        where = "numbers are micro-batches, where there is room"
    else:
        where = "operations are narrower than a column, which shows what runs at its middle"
    yield f"{where}; one column is {1 / scale.columns_per_second:.4g}"
