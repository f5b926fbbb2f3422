"""What does one rank of a trial hand back, and how are the times of ranks on several machines compared?"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RankResult:
    """What the body of one rank returns, as JSON."""

    start_s: Sequence[float]
    """Of every timed iteration, or of the program of an asynchronous schedule, on the monotonic clock [k]."""
    end_s: Sequence[float]
    moments: Sequence[Any]
    """Of every event of the rank's program, see executor.running.recording [k][3][event]."""
    memory: dict[str, int]
    """PeakMemory.document()"""
    check: dict[str, Any] | None = None
    """max_gradient_error, max_weight_error, loss_error, passed; the same from every rank."""
    shared_clock: bool = True
    """Whether all ranks ran on one machine, so that their times can be compared."""
    weights_digest: str | None = None
    """Of the bits of its weights after the last iteration, where jobs that trained took turns."""


def on_one_clock(ranks: Sequence[RankResult]) -> tuple[RankResult, ...]:
    """The ranks, with the times of all on the clock of the first.

    Ranks on several machines start every iteration behind a barrier, each with a clock of its own: what they
    call the start is taken for one moment, which it is but for the length of a message.
    """
    if all(rank.shared_clock for rank in ranks):
        return tuple(ranks)
    first_s = np.array(ranks[0].start_s)
    return tuple(_shifted(rank, first_s - np.array(rank.start_s)) for rank in ranks)


def _shifted(rank: RankResult, later_s: Any) -> RankResult:
    """Its times, those of iteration k by later_s[k]."""
    moments = [np.array(each, dtype=np.float64) for each in rank.moments]
    return dataclasses.replace(
        rank,
        start_s=(np.array(rank.start_s) + later_s).tolist(),
        end_s=(np.array(rank.end_s) + later_s).tolist(),
        moments=[(each + by_s).tolist() for each, by_s in zip(moments, later_s.tolist(), strict=True)],
    )
