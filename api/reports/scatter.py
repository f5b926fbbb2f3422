"""Where do predictions lie beside measurements? Points on logarithmic axes that both span the same values."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Any

SIDE = 560
"""Pixels of the picture's square."""
_EDGE = 56
_TICKS, _FINE_TICKS, _NARROW = (1, 2, 5), tuple(range(1, 10)), 0.6
COLOURS = ("compute", "p2p", "all_reduce", "weights", "transient", "input", "gradients", "warn")
"""Names of colours in the style sheet."""


@dataclass(frozen=True)
class Point:
    """One prediction and what was measured."""

    predicted: float
    measured: float
    colour: str
    """A name of COLOURS."""
    words: str
    """Shown where the mouse is."""
    low: float | None = None
    """The error bar, where there is one."""
    high: float | None = None


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name."""
    return {name: COLOURS[number % len(COLOURS)] for number, name in enumerate(sorted(set(names)))}


def scatter(points: Sequence[Point], *, unit: str) -> dict[str, Any]:
    """What `scatter.html` draws of at least one point."""
    values = [value for point in points for value in (point.predicted, point.measured)]
    low, high = log10(min(values)) - 0.08, log10(max(values)) + 0.08

    def place(value: float) -> float:
        return round(_EDGE + (log10(value) - low) / (high - low) * (SIDE - 2 * _EDGE), 1)

    steps = _TICKS if high - low > _NARROW else _FINE_TICKS
    ticks = [
        step * 10.0**power
        for power in range(floor(low), floor(high) + 1)
        for step in steps
        if low <= log10(step * 10.0**power) <= high
    ]
    return {
        "unit": unit,
        "side": SIDE,
        "edge": _EDGE,
        "ticks": [{"at": place(tick), "text": f"{tick:g}"} for tick in ticks],
        "points": [
            {
                "x": place(point.measured),
                "y": SIDE - place(point.predicted),
                "low": SIDE - max(_EDGE, place(point.low)) if point.low else None,
                "high": SIDE - min(SIDE - _EDGE, place(point.high)) if point.high else None,
                "colour": point.colour,
                "words": point.words,
            }
            for point in points
        ],
    }
