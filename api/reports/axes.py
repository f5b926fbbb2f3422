"""Where on a picture does a number stand? Axes that span their values, with round ticks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil, floor, log10

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_STEPS = (
    *((count * _MINUTE, "%H:%M", 6) for count in (1, 5, 15, 30)),
    *((count * _HOUR, "%d %b %H:%M", 3) for count in (1, 3, 6, 12)),
    *((count * _DAY, "%d %b", 6) for count in (1, 2, 7, 14, 30)),
    *((count * _DAY, "%b %Y", 5) for count in (61, 122, 365)),
)
"""Seconds between ticks of moments, how those are written, and how many have room."""
_MOST_TICKS, _MOST_NAMED = 6, 16
_NARROW = 2.3
"""Decades below which a logarithmic axis has ticks at 2 and 5 too."""


@dataclass(frozen=True)
class Axis:
    """One direction of a picture; `start` and `end` are its pixels for `low` and `high`."""

    title: str
    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]
    write: Callable[[float], str]
    """A tick in words."""
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """The pixel of a value; what lies outside stands at the edge."""
        low, high = self._on(self.low), self._on(self.high)
        share = (self._on(max(value, self.low)) - low) / (high - low)
        return round(self.start + min(share, 1.0) * (self.end - self.start), 1)

    def marks(self) -> list[tuple[float, str]]:
        """The pixel and the text of every tick."""
        return [(self.place(tick), self.write(tick)) for tick in self.ticks]

    def _on(self, value: float) -> float:
        return log10(value) if self.logarithmic else value


def linear(
    title: str, values: Iterable[float], *, start: float, end: float, write: Callable[[float], str]
) -> Axis:
    """From zero to a little more than the largest value, in steps of 1, 2 or 5."""
    most = max(values, default=0.0)
    high = 1.06 * most if most > 0 else 1.0
    step = _step(high)
    ticks = tuple(step * number for number in range(floor(high / step * (1 + 1e-9)) + 1))
    return Axis(title, 0.0, high, start, end, ticks, write)


def logarithmic(
    title: str, values: Sequence[float], *, start: float, end: float, write: Callable[[float], str]
) -> Axis:
    """Over all values, which are positive, with a little room on both sides."""
    low, high = log10(min(values)) - 0.08, log10(max(values)) + 0.08
    return Axis(title, 10**low, 10**high, start, end, _decades(low, high), write, logarithmic=True)


def sizes(title: str, values: Sequence[int], *, start: float, end: float) -> Axis:
    """Over micro-batch sizes, which double from one to the next: a tick at each, or at some of many."""
    known = sorted(set(values))
    every = ceil(len(known) / _MOST_TICKS)
    low, high = known[0] / 1.15, known[-1] * 1.15
    return Axis(title, low, high, start, end, tuple(known[::every]), "{:,}".format, logarithmic=True)


def positions(title: str, count: int, *, start: float, end: float) -> Axis:
    """Over things that are counted from 0, each with equal room: a tick at each, or at some of many."""
    every = next(size for size in (1, 2, 4, 8, 16, 32, 64, 128, 256, 4096) if count <= _MOST_NAMED * size)
    ticks = tuple(float(at) for at in range(0, count, every))
    return Axis(title, -0.5, count - 0.5, start, end, ticks, "{:.0f}".format)


def moments(title: str, values: Sequence[float], *, start: float, end: float) -> Axis:
    """Over moments in seconds since 1970, UTC: ticks at whole minutes, hours, days, months or years."""
    low, high = min(values), max(values)
    room = max(0.04 * (high - low), 60.0)
    low, high = low - room, high + room
    step, form, most = next((each for each in _STEPS if (high - low) / each[0] <= each[2]), _STEPS[-1])
    while (high - low) / step > most:
        step *= 2
    first = ceil(low / step)
    ticks = tuple(step * number for number in range(first, floor(high / step) + 1))
    return Axis(title, low, high, start, end, ticks, lambda at: f"{datetime.fromtimestamp(at, UTC):{form}}")


def _step(high: float) -> float:
    power = 10.0 ** floor(log10(high))
    return next(
        size * power for size in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0) if high / (size * power) <= _MOST_TICKS
    )


def _decades(low: float, high: float) -> tuple[float, ...]:
    fine = (1, 2, 5) if high - low < _NARROW else (1,)
    every = ceil((high - low) / _MOST_TICKS)
    return tuple(
        size * 10.0**power
        for power in range(floor(low), floor(high) + 1)
        for size in fine
        if power % every == 0 and low <= log10(size * 10.0**power) <= high
    )
