"""How many bytes are alive on each rank over a timeline, and how many at most?

A forward takes its activations when it starts; the backward gives them back when it ends, its parts a share
each. Where the backward is split, the input gradient gives back all but what the weight gradient needs,
which waits until that ends, with what the input gradient left for it. A backward may need more while it runs.
What a rank always holds (weights, optimizer states) is not counted.
"""

from dataclasses import dataclass

import numpy as np

from tuner.operation_costs import Floats, by_pipe
from tuner.schedules.program import Columns, Integers, Kind, Program
from tuner.timeline import Timeline


@dataclass(frozen=True)
class StageBytes:
    """Bytes of one micro-batch at every stage, [s], or [p, s] where pipes differ."""

    activations: Floats
    """Kept from its forward to its backward."""
    pending: Floats
    """Of those, what is kept from the input gradient to the weight gradient."""
    working: Floats | float = 0.0
    """Needed besides while a backward (B or I) runs: what is recomputed, and transient gradients."""
    arriving: Floats | float = 0.0
    """Taken by the input gradient and kept to the weight gradient: gradients, and what was recomputed."""


@dataclass(frozen=True)
class MemoryReplay:
    """The changes of what is alive, rank after rank in the order in which they happen."""

    rank: Integers
    time_s: Floats
    change_bytes: Floats
    alive_bytes: Floats
    """On the rank after each change."""
    depth: int

    def peak_bytes(self) -> Floats:
        """Most bytes alive at once on each rank [w]."""
        peak = np.zeros(self.depth)
        np.maximum.at(peak, self.rank, self.alive_bytes)
        return peak

    def final_bytes(self) -> Floats:
        """What is left on each rank after its last step [w]: 0 if every forward has had its backward."""
        return np.bincount(self.rank, self.change_bytes, minlength=self.depth).astype(np.float64)


_TAKES, _GIVES_BACK = 0, 1
"""What a step takes, it takes before it gives anything back."""


def replay_memory(timeline: Timeline, stage_bytes: StageBytes) -> MemoryReplay:
    """What is alive on every rank over the whole timeline."""
    compiled = timeline.compiled
    program, columns = compiled.program, compiled.program.columns
    taken, given_back = _changes(program, stage_bytes)
    rows = np.flatnonzero(np.isin(columns.kind, (Kind.F, Kind.B, Kind.I, Kind.W)))
    event = np.searchsorted(compiled.first, rows, side="right") - 1
    row = np.concatenate([rows, rows])
    when = np.repeat([_TAKES, _GIVES_BACK], len(rows))
    change = np.concatenate([taken[rows], -given_back[rows]])
    time_s = np.concatenate([timeline.start_s[event], timeline.end_s[event]])
    order = np.lexsort((row, when, columns.step[row]))
    order = order[change[order] != 0]
    rank = columns.rank[row[order]]
    return MemoryReplay(rank, time_s[order], change[order], _running(change[order], rank), program.depth)


def _changes(program: Program, stage_bytes: StageBytes) -> tuple[Floats, Floats]:
    """What each row takes at its start, and gives back at its end."""
    columns = program.columns
    given = stage_bytes.activations, stage_bytes.pending, stage_bytes.working, stage_bytes.arriving
    activations, pending, working, arriving = (_of_rows(program, values) for values in given)
    kind, parts = columns.kind, columns.parts
    backward = (kind == Kind.B) | (kind == Kind.I)
    taken = np.where(kind == Kind.F, activations, np.where(backward, working, 0.0))
    taken = np.where(kind == Kind.I, taken + arriving, taken)
    given_back = np.zeros(len(kind))
    for which, share in (
        (Kind.B, activations / parts + working),
        (Kind.I, activations - pending + working),
        (Kind.W, pending + arriving),
    ):
        given_back = np.where(kind == which, share, given_back)
    return taken, given_back


def _of_rows(program: Program, values: Floats | float) -> Floats:
    columns: Columns = program.columns
    return by_pipe(values, program)[columns.pipe, columns.stage]


def _running(change: Floats, rank: Integers) -> Floats:
    """Sums from each rank's first change on."""
    total = np.concatenate([[0.0], np.cumsum(change)])
    return np.asarray(total[1:] - total[np.searchsorted(rank, rank)])
