"""What does a page need to draw a timeline? Columns of numbers with an entry for each operation."""

from math import floor, log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.held_memory import HeldMemory
from tuner.schedules.compiled import NONE
from tuner.schedules.program import Integers, Kind
from tuner.timeline import Timeline

VERSION = 1

_DIGITS = 7
"""Of the makespan: a screen has fewer columns."""


def timeline_document(timeline: Timeline, held: HeldMemory | None = None) -> dict[str, Any]:
    """The timeline as JSON values, operations rank by rank; equal timelines give equal documents.

    `half` is 1 and 2 for the two operations of a fused pair, which share their interval, else 0. `live`
    counts the micro-batches alive on the rank after the operation, each of its chunks apart. Collectives are
    listed apart, with an entry on every rank that takes part. `critical_path` indexes the operations. `parts`
    is how many backwards share a micro-batch. `memory` says what a rank always holds, and what a micro-batch
    keeps of a stage; None where that is not known.
    """
    compiled = timeline.compiled
    program, kind = compiled.program, compiled.program.columns.kind
    lasting = timeline.end_s > timeline.start_s
    computed = np.flatnonzero(timeline.computes & ((kind[compiled.first] != Kind.UPDATE) | lasting))
    collectives = np.flatnonzero(~timeline.computes & lasting)
    event, row, half = _operations(timeline, computed)
    columns = program.columns
    return {
        "version": VERSION,
        "schedule": program.scheme,
        "depth": program.depth,
        "pipes": program.pipes,
        "stages": program.stages,
        "chunks": program.chunks,
        "micro_batches": program.micro_batches,
        "iterations": program.iterations,
        "parts": int(columns.parts[columns.kind == Kind.B].max(initial=1)),
        "makespan": timeline.makespan_s,
        "kinds": [member.name for member in Kind],
        "operations": _times(timeline, event)
        | {
            "kind": kind[row].tolist(),
            "pipe": columns.pipe[row].tolist(),
            "stage": columns.stage[row].tolist(),
            "micro_batch": columns.micro_batch[row].tolist(),
            "half": half.tolist(),
            "live": _live(timeline)[row].tolist(),
        },
        "collectives": _times(timeline, collectives)
        | {"group": columns.group[compiled.first[collectives]].tolist()},
        "critical_path": _critical_path(timeline, event),
        "memory": held.document() if held else None,
    }


def _operations(timeline: Timeline, computed: Integers) -> tuple[Integers, Integers, Integers]:
    """Event, row and half of every operation."""
    second = timeline.compiled.second[computed]
    fused = second != NONE
    event = np.repeat(computed, 1 + fused)
    again = np.concatenate([[False], event[1:] == event[:-1]])
    half = np.where(again, 2, np.repeat(fused, 1 + fused).astype(np.int64))
    row = np.where(again, timeline.compiled.second[event], timeline.compiled.first[event])
    return event, row, half


def _times(timeline: Timeline, event: Integers) -> dict[str, list[Any]]:
    makespan = timeline.makespan_s
    decimals = _DIGITS - 1 - floor(log10(makespan)) if makespan else 0
    return {
        "rank": timeline.compiled.rank[event].tolist(),
        "start": _short(np.round(timeline.start_s[event], decimals)),
        "end": _short(np.round(timeline.end_s[event], decimals)),
    }


def _short(values: NDArray[np.float64]) -> list[float | int]:
    """Whole numbers without the point and its zero."""
    return [int(value) if value.is_integer() else value for value in values.tolist()]


def _live(timeline: Timeline) -> Integers:
    """Live count after each row, halves rounded up; rows that do not change it keep the one before."""
    rows, _, alive = timeline.live()
    program = timeline.compiled.program
    count = np.zeros(program.operations, dtype=np.int64)
    at = np.searchsorted(rows, np.arange(program.operations), side="right") - 1
    known = (at >= 0) & (program.columns.rank[rows[at]] == program.columns.rank)
    count[known] = np.ceil(alive[at[known]])
    return count


def _critical_path(timeline: Timeline, event: Integers) -> list[int]:
    path = np.array(timeline.critical_path().events, dtype=np.int64)
    at = np.searchsorted(event, path)
    return [int(index) for index in at[np.append(event, NONE)[at] == path]]
