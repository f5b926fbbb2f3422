"""What do measured rounds of communication beside computation say of a link?

Medians of what a round took beyond its computation alone. Nothing is said to be faster beside computation
than alone, which only noise can make it seem.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from executor.measuring.overlaps import Beside, Overlapped
from profiles.cluster import LinkFit, Overlap, Transfer, formula_factors
from tuner.link_fit import LinkFitError, fit_line
from tuner.operation_costs import Floats

_MOST_SLOW_DOWN = 100.0
"""As the document bounds it."""
_BETWEEN = 1.5
"""Times as long as one collective: halfway from two side by side to one after another."""
_ENDS = 2
"""In a round each process sends a message and receives one."""


def overlap_of(overlaps: Sequence[Overlapped], fits: Mapping[Any, LinkFit]) -> Overlap:
    """Of the rounds on one link, whose fits by operation are known."""
    collectives = _of(overlaps, "collective")
    lost_s = [float(np.median(_lost_s(one))) for one in _of(overlaps, "hidden")]
    occupancy_s = max(0.0, float(np.median(lost_s))) / _ENDS
    hops = {
        one.message_bytes: float(np.median(_lost_s(one))) - _ENDS * occupancy_s
        for one in _of(overlaps, "exposed")
    }
    lasted = {one.message_bytes: float(np.median(one.rounds.lasted_s)) for one in collectives}
    slow_down, spread = _slow_down(collectives)
    return Overlap(
        slow_down=slow_down,
        slow_down_spread=spread,
        collective=_slower(fits["all_reduce"], lasted),
        p2p=_slower(fits["p2p"], hops),
        occupancy_s=occupancy_s,
        repeats=min(len(one.rounds.alone_s) for one in overlaps),
    )


def run_side_by_side(overlaps: Sequence[Overlapped]) -> bool | None:
    """Whether two collectives at once take less than twice the time of one by half; None if not measured.

    Large ones say most: where cores or links are short, their bytes are what takes time.
    """
    pairs = _of(overlaps, "two")
    if not pairs:
        return None
    one_s, two_s = (
        sum(float(np.median(getattr(pair.rounds, which))) for pair in pairs)
        for which in ("alone_s", "beside_s")
    )
    return two_s < _BETWEEN * one_s


def _of(overlaps: Sequence[Overlapped], beside: Beside) -> list[Overlapped]:
    return [one for one in overlaps if one.beside == beside]


def _lost_s(one: Overlapped) -> Floats:
    return np.subtract(one.rounds.beside_s, one.rounds.alone_s, dtype=np.float64)


def _slow_down(collectives: Sequence[Overlapped]) -> tuple[float, float]:
    """Of all sizes together, so that long collectives say most; and how far rounds of the longest spread."""
    beside_s = sum(float(np.median(one.rounds.beside_s)) for one in collectives)
    alone_s = sum(float(np.median(one.rounds.alone_s)) for one in collectives)
    if alone_s <= 0:
        return 0.0, 0.0
    longest = max(collectives, key=lambda one: one.message_bytes).rounds
    ratios = np.array(longest.beside_s) / np.maximum(longest.alone_s, 1e-9)
    low, high = np.percentile(ratios, [25, 75]).tolist()
    slow_down = min(_MOST_SLOW_DOWN, max(0.0, beside_s / alone_s - 1))
    return slow_down, min(_MOST_SLOW_DOWN, high - low)


def _slower(fit: LinkFit, seconds: Mapping[int, float]) -> Transfer:
    """The line through the times beside computation, at least those alone; the one alone where none fits."""
    alone_s = {point.message_bytes: point.seconds for point in fit.points}
    steps, volume = formula_factors(fit.operation, fit.processes)
    try:
        line = fit_line([*seconds], [max(taken, alone_s[size]) for size, taken in seconds.items()])
    except LinkFitError:
        return fit.transfer
    return Transfer(
        latency_s=line.latency_s / steps, bandwidth_bytes_per_s=line.bandwidth_bytes_per_s * volume
    )
