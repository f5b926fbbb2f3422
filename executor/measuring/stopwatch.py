"""How long does work take, how far do its repeats spread, and was the machine quiet?

Medians of wall time on CPUs, and of events on the stream on CUDA. The time that a thread really ran tells a
loaded machine, and stands for the wall time of a repeat during which it had to wait.
"""

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch

WARM_UPS = 2
LEAST_REPEATS = 5
WANTED_ERROR = 0.005
"""Relative error of the median at which repeating ends: interquartile range / (median · √repeats)."""
QUIET_SHARE = 0.95
"""A repeat counts as undisturbed if its thread ran for this share of the time."""


@dataclass(frozen=True)
class Timed:
    """What the repeats of one kind of work gave."""

    median_s: float
    spread: float
    """Interquartile range over median."""
    repeats: int
    outliers: int
    """Further than three interquartile ranges from the median."""
    quiet_share: float
    """Share of the repeats that nothing disturbed; 1 on CUDA, where it is not known."""

    @property
    def error(self) -> float:
        """Relative error of the median."""
        return self.spread / math.sqrt(self.repeats)


@dataclass
class _Mark:
    wall_s: float = 0.0
    ran_s: float = 0.0
    event: torch.cuda.Event | None = None


@dataclass
class Stopwatch:
    """Collects laps by name: `with watch("forward"): ...`."""

    on_cuda: bool = False
    single_thread: bool = True
    """Whether the time of this thread says how much of the time it ran."""
    _open: list[tuple[str, _Mark, _Mark]] = field(default_factory=list)
    _laps: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time what is inside as one lap."""
        begin = self._mark()
        yield
        self._open.append((name, begin, self._mark()))

    def settle(self) -> None:
        """Read the laps since the last time, waiting for the device."""
        if self.on_cuda:
            torch.cuda.synchronize()
        for name, begin, end in self._open:
            self._laps.setdefault(name, []).append(_lap(begin, end))
        self._open.clear()

    def forget(self) -> None:
        """Drop all laps: they were warm-up."""
        self.settle()
        self._laps.clear()

    def results(self) -> dict[str, Timed]:
        """What the laps say so far."""
        return {name: summarise(laps, single_thread=self.single_thread) for name, laps in self._laps.items()}

    def _mark(self) -> _Mark:
        if self.on_cuda:
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
            return _Mark(event=event)
        return _Mark(time.perf_counter(), time.thread_time())


def repeat(cycle: Callable[[Stopwatch], None], watch: Stopwatch, *, budget_s: float) -> dict[str, Timed]:
    """Run `cycle` until every lap in it is known to WANTED_ERROR, or `budget_s` has passed.

    At least LEAST_REPEATS times after WARM_UPS, whatever the budget. Garbage is collected before, not during.
    """
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(WARM_UPS):
            cycle(watch)
        watch.forget()
        end = time.perf_counter() + budget_s
        for number in count(1):
            cycle(watch)
            watch.settle()
            if number < LEAST_REPEATS:
                continue
            results = watch.results()
            if time.perf_counter() > end or all(timed.error <= WANTED_ERROR for timed in results.values()):
                return results
    finally:
        if was_enabled:
            gc.enable()
    raise RuntimeError("unreachable: repeats are counted without end")


def summarise(laps: Sequence[tuple[float, float]], *, single_thread: bool = True) -> Timed:
    """Median and spread of laps of (seconds, share of them that the thread ran).

    Disturbed repeats are left out as long as LEAST_REPEATS quiet ones remain; else they count with the time
    that the thread ran, which several threads do not have.
    """
    seconds, share = np.array(laps, dtype=np.float64).T
    quiet = (share >= QUIET_SHARE) | (not single_thread)
    used = seconds[quiet] if quiet.sum() >= LEAST_REPEATS else np.where(quiet, seconds, seconds * share)
    low, median, high = (float(value) for value in np.percentile(used, [25, 50, 75]))
    reach = 3 * (high - low)
    return Timed(
        median_s=median,
        spread=(high - low) / median if median > 0 else 0.0,
        repeats=len(used),
        outliers=int((np.abs(seconds - median) > max(reach, 0.02 * median)).sum()),
        quiet_share=float(quiet.mean()),
    )


def _lap(begin: _Mark, end: _Mark) -> tuple[float, float]:
    if begin.event is not None and end.event is not None:
        return begin.event.elapsed_time(end.event) / 1e3, 1.0
    wall = end.wall_s - begin.wall_s
    return wall, min(1.0, (end.ran_s - begin.ran_s) / wall) if wall > 0 else 1.0
