"""Did two jobs ever compute on one rank at the same time? From the recorded events, on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from executor.running.recording import BEGUN, ENDED
from executor.trials.trial import Trial
from executor.trials.watched import event_operations
from tuner.operation_costs import Floats
from tuner.schedules.program import Kind

COMPUTE = frozenset({Kind.F, Kind.B, Kind.I, Kind.W, Kind.RECOMPUTE, Kind.UPDATE})


@dataclass(frozen=True)
class Overlap:
    """Computation of two jobs at once."""

    rank: int
    jobs: tuple[int, int]
    seconds: float
    """All together."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def find_overlaps(trials: Sequence[Trial]) -> tuple[Overlap, ...]:
    """For every rank and two jobs what they computed together in their timed iterations, if anything.

    The jobs have run on one machine, whose monotonic clock their events are of.
    """
    found = []
    ran = [(number, trial) for number, trial in enumerate(trials) if trial.ranks]
    for (first, one), (second, other) in combinations(ran, 2):
        for rank in range(len(one.ranks)):
            seconds = _common_s(computations(one, rank), computations(other, rank))
            if seconds > 0:
                found.append(Overlap(rank, (first, second), seconds))
    return tuple(found)


def computations(trial: Trial, rank: int) -> Floats:
    """Start and end of every computation of a rank in the timed iterations, in order [k, 2]."""
    program, result = trial.prepared.program, trial.ranks[rank]
    kinds = [op.kind in COMPUTE for op in event_operations(program, rank % program.depth)]
    moments = np.array(result.moments, dtype=np.float64)  # [iteration, 3, event]
    spans = moments[:, [BEGUN, ENDED]][:, :, np.flatnonzero(kinds)]
    ordered = spans.transpose(0, 2, 1).reshape(-1, 2)
    return ordered[np.argsort(ordered[:, 0], kind="stable")]


def _common_s(one: Floats, other: Floats) -> float:
    """Seconds that are in a span of both; the spans of each are in order and apart."""
    total, i, j = 0.0, 0, 0
    while i < len(one) and j < len(other):
        total += max(0.0, min(one[i, 1], other[j, 1]) - max(one[i, 0], other[j, 0]))
        if one[i, 1] < other[j, 1]:
            i += 1
        else:
            j += 1
    return total
