"""What is drawn for each operation of a rank? Letters, a number, and what fills the rest of its cell."""

from dataclasses import dataclass

import numpy as np

from tuner.schedules.compiled import NONE
from tuner.schedules.program import Kind
from tuner.timeline import Timeline
from tuner.timeline_lanes import lanes

LETTERS = {Kind.F: "F", Kind.B: "B", Kind.I: "I", Kind.W: "W", Kind.RECOMPUTE: "R", Kind.UPDATE: "U"}
_FILLS = {Kind.F: "-", Kind.B: "=", Kind.I: "=", Kind.W: "~", Kind.RECOMPUTE: "-", Kind.UPDATE: "_"}


@dataclass(frozen=True)
class Cell:
    """An operation or a fused pair."""

    start: float
    end: float
    letters: str
    """One for each operation, lower case in the second of two directions or chunks."""
    number: str
    """Micro-batch, or the stage of an UPDATE or SYNC."""
    fill: str


Lane = list[Cell]
"""Cells that do not overlap, by time."""


def compute_lane(timeline: Timeline, rank: int) -> Lane:
    """What occupies a rank; operations without duration are left out."""
    compiled = timeline.compiled
    lane = []
    for event in range(compiled.begins[rank], compiled.begins[rank + 1]):
        start, end = float(timeline.start_s[event]), float(timeline.end_s[event])
        if timeline.computes[event] and end > start:
            rows = [int(row[event]) for row in (compiled.first, compiled.second) if row[event] != NONE]
            letters, numbers = zip(*(_labels(timeline, row) for row in rows), strict=True)
            fill = _FILLS[Kind(timeline.compiled.program.columns.kind[rows[-1]])]
            lane.append(Cell(start, end, "".join(letters), ".".join(numbers), fill))
    return lane


def sync_lanes(timeline: Timeline, rank: int) -> list[Lane]:
    """Collectives of a rank that take time, in as few lanes as keep them apart."""
    compiled, columns = timeline.compiled, timeline.compiled.program.columns
    first, last = compiled.begins[rank], compiled.begins[rank + 1]
    kind = columns.kind[compiled.first[first:last]]
    events = np.flatnonzero((kind == Kind.SYNC) & (timeline.end_s > timeline.start_s)[first:last]) + first
    start, end = timeline.start_s[events], timeline.end_s[events]
    chosen = lanes(start, end, np.zeros_like(events))
    found: list[Lane] = [[] for _ in range(int(chosen.max(initial=-1)) + 1)]
    for number in np.argsort(start, kind="stable").tolist():
        group = int(columns.group[compiled.first[events[number]]])
        found[chosen[number]].append(Cell(float(start[number]), float(end[number]), "S", str(group), "~"))
    return found


def _labels(timeline: Timeline, row: int) -> tuple[str, str]:
    program = timeline.compiled.program
    columns = program.columns
    kind, stage = Kind(columns.kind[row]), int(columns.stage[row])
    second = columns.pipe[row] % 2 if program.pipes > 1 else stage // program.depth % 2
    letter = LETTERS[kind].lower() if second else LETTERS[kind]
    return letter, str(stage if kind == Kind.UPDATE else int(columns.micro_batch[row]))
