"""What does a simulated or executed program look like over time?"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuner.schedules.compiled import NONE, Compiled
from tuner.schedules.program import Columns, Integers, Kind

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CriticalPath:
    """The chain of events that decides the makespan, first to last, and how many of each kind it holds."""

    events: tuple[int, ...]
    forwards: float
    backwards: float
    """B and I; a half counts 1/2."""
    weight_gradients: float
    messages_s: float
    """Time on the chain that is spent waiting for messages."""
    collectives_s: float
    """Time on the chain that is spent waiting for collectives."""


@dataclass(frozen=True)
class Timeline:
    """Start and end of every event, and of every message; events are ordered rank by rank."""

    compiled: Compiled
    start_s: Floats
    end_s: Floats
    """Of a SYNC the end of its collective."""
    done_s: Floats
    """When the rank goes on after each event; the last entry is the start of the program."""
    left_s: Floats
    """When each message leaves."""
    arrival_s: Floats
    held_by: dict[int, int] = field(default_factory=dict)
    """For each UPDATE the SYNC of the member that came last to the collective which ended last before it."""

    @cached_property
    def makespan_s(self) -> float:
        """End of the last event."""
        return float(self.end_s.max(initial=0.0))

    @cached_property
    def computes(self) -> NDArray[np.bool_]:
        """Which events occupy their rank: all but the collectives."""
        return np.asarray(self.compiled.program.columns.kind[self.compiled.first] != Kind.SYNC)

    def busy_s(self) -> Floats:
        """Seconds that each rank computes [w]."""
        length = np.where(self.computes, self.end_s - self.start_s, 0.0)
        depth = self.compiled.program.depth
        return np.bincount(self.compiled.rank, length, minlength=depth).astype(np.float64)

    @property
    def bubble_ratio(self) -> float:
        """1 − Σ busy / (D·makespan)."""
        total = self.compiled.program.depth * self.makespan_s
        return float(1 - self.busy_s().sum() / total) if total else 0.0

    def live(self) -> tuple[Integers, Floats, Floats]:
        """Rows of the operations that change what is alive, by how much, and the live count after each.

        A forward adds a micro-batch; a backward (B, or W where it is split) removes one, or its part of one.
        """
        columns = self.compiled.program.columns
        rows = np.flatnonzero(np.isin(columns.kind, (Kind.F, Kind.B, Kind.W)))
        change = np.where(columns.kind[rows] == Kind.F, 1.0, -1.0 / columns.parts[rows])
        running = np.cumsum(change)
        begins = np.searchsorted(columns.rank[rows], np.arange(self.compiled.program.depth))
        before = np.append(0.0, running)[begins]
        return rows, change, running - before[columns.rank[rows]]

    def peak_live(self) -> Floats:
        """Most micro-batches alive at once on each rank: forwards issued minus backwards finished [w]."""
        rows, _, alive = self.live()
        peak = np.zeros(self.compiled.program.depth)
        np.maximum.at(peak, self.compiled.program.columns.rank[rows], alive)
        return peak

    def critical_path(self) -> CriticalPath:
        """Walks back from the last event; on a tie the predecessor on the same rank."""
        columns, first = self.compiled.program.columns, self.compiled.first
        ends = np.where(self.computes, self.end_s, -1.0)
        event = int(ends.argmax()) if len(ends) else NONE
        chain = []
        while event != NONE:
            chain.append(event)
            event = self._binding(event)
        chain.reverse()
        path = np.array(chain, dtype=np.int64)
        kind, second = columns.kind[first[path]], self.compiled.second[path]
        rows = np.concatenate([first[path], second[second != NONE]])
        waited = self.start_s[path] - self.done_s[np.append(NONE, path[:-1])]
        holding = np.isin(path, list(self.held_by)) & (np.append(NONE, kind[:-1]) == Kind.SYNC)
        return CriticalPath(
            events=tuple(chain),
            forwards=_count(columns, rows, Kind.F),
            backwards=_count(columns, rows, Kind.B, Kind.I),
            weight_gradients=_count(columns, rows, Kind.W),
            messages_s=float(waited[~holding & (kind != Kind.SYNC)].sum()),
            collectives_s=float(waited[holding].sum()),
        )

    def _binding(self, event: int) -> int:
        """The event whose end let this one start; NONE at the start of the program."""
        compiled = self.compiled
        before = event - 1 if event > compiled.begins[int(compiled.rank[event])] else NONE
        if not self.computes[event] or self.done_s[before] >= self.start_s[event]:
            return before
        if event in self.held_by:
            return self.held_by[event]
        for inputs in compiled.inputs:
            transfer = int(inputs[event])
            if transfer != NONE and self.arrival_s[transfer] >= self.start_s[event]:
                sent = int(compiled.transfers.sent_by[transfer])
                posted = int(compiled.transfers.posted_by[transfer])
                return sent if self.done_s[sent] >= self.done_s[posted] else posted
        return before


def _count(columns: Columns, rows: Integers, *kinds: Kind) -> float:
    """How many operations of these kinds are in the rows, in whole ones."""
    counted = rows[np.isin(columns.kind[rows], kinds)]
    return float((1.0 / columns.parts[counted]).sum())
