"""Was the machine quiet while something was timed? Which iterations count, by a rule fixed beforehand.

An iteration is disturbed when, while it ran, processes that do not belong to the run, or the hypervisor, took
more than a tenth of the machine's cores, and more than /proc/stat can tell at its 10 ms ticks; or when a
fixed loop took a quarter longer than at best. Where fewer than 60 % of the iterations are undisturbed the
machine was not quiet, and a time is not to be compared with a prediction.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from executor.launchers.processes import descendants
from tuner.operation_costs import Floats

OTHERS_SHARE = 0.10
TICKS_S = 0.03
REFERENCE_RATIO = 1.25
KEPT_SHARE = 0.60

_INTERVAL_S = 0.25
_REFERENCE_STEPS = 20_000
_BUSY = (0, 1, 2, 5, 6)  # user (guests included), nice, system, interrupts
_STEAL = 7


@dataclass(frozen=True)
class LoadSample:
    """Seconds of processor time up to a moment, all cores together."""

    at_s: float
    """Of the monotonic clock."""
    busy_s: float
    steal_s: float
    own_s: float
    """Of this process and everything that it started."""
    reference_s: float
    """What a fixed loop took."""


@dataclass(frozen=True)
class Quietness:
    """Which iterations count."""

    kept: tuple[bool, ...]

    @property
    def quiet(self) -> bool:
        """Whether enough of them do."""
        return bool(self.kept) and sum(self.kept) >= KEPT_SHARE * len(self.kept)


def judge_quietness(
    samples: Sequence[LoadSample], windows: Sequence[tuple[float, float]], *, cores: int
) -> Quietness:
    """Whether each window (start and end in seconds) was undisturbed; pure.

    A window is seen through the samples around it. Without two samples nothing is known, and all are kept.
    """
    if len(samples) < 2:
        return Quietness(tuple(True for _ in windows))
    at = np.array([sample.at_s for sample in samples])
    others = np.array([sample.busy_s + sample.steal_s - sample.own_s for sample in samples])
    reference = np.array([sample.reference_s for sample in samples])
    return Quietness(
        tuple(_is_quiet(at, others, reference, window=window, cores=cores) for window in windows)
    )


def _is_quiet(
    at: Floats, others: Floats, reference: Floats, *, window: tuple[float, float], cores: int
) -> bool:
    first = max(0, int(np.searchsorted(at, window[0], side="right")) - 1)
    last = min(len(at) - 1, int(np.searchsorted(at, window[1], side="left")))
    if last <= first:
        first, last = (first - 1, first) if first else (0, 1)
    length_s = float(at[last] - at[first])
    taken_s = float(others[last] - others[first])
    slowest = float(np.median(reference[first : last + 1]) / reference.min())
    return taken_s <= max(OTHERS_SHARE * cores * length_s, TICKS_S) and slowest <= REFERENCE_RATIO


def wait_until_quiet(most_s: float) -> bool:
    """Whether others took less than OTHERS_SHARE of the cores for a second, within so long."""
    end, cores = time.monotonic() + most_s, len(os.sched_getaffinity(0))
    while time.monotonic() < end:
        before = sample_load()
        time.sleep(1.0)
        after = sample_load()
        busy_s = (after.busy_s + after.steal_s) - (before.busy_s + before.steal_s)
        others_s = busy_s - (after.own_s - before.own_s)
        if others_s <= OTHERS_SHARE * cores * (after.at_s - before.at_s):
            return True
    return False


class LoadMonitor:
    """Samples the machine in a thread, as a context manager; the loop takes about a millisecond a sample."""

    def __init__(self) -> None:
        self.samples: list[LoadSample] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="load-monitor", daemon=True)

    def __enter__(self) -> LoadMonitor:
        self.samples.append(sample_load())
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self.samples.append(sample_load())

    def judge(self, windows: Sequence[tuple[float, float]]) -> Quietness:
        """Whether each window was undisturbed."""
        return judge_quietness(self.samples, windows, cores=len(os.sched_getaffinity(0)))

    def _sample(self) -> None:
        while not self._done.wait(_INTERVAL_S):
            self.samples.append(sample_load())


def sample_load() -> LoadSample:
    """How the machine is now."""
    fields = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    ticks = [int(field) for field in fields] + [0] * (_STEAL + 1 - len(fields))
    second = os.sysconf("SC_CLK_TCK")
    busy_s, steal_s = sum(ticks[column] for column in _BUSY) / second, ticks[_STEAL] / second
    own_s = sum(map(_processor_ticks, [os.getpid(), *descendants(os.getpid())])) / second
    return LoadSample(time.monotonic(), busy_s, steal_s, own_s, _reference_s())


def _processor_ticks(pid: int) -> int:
    """Of a process and of its children that have ended and were collected."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, text[text.rindex(")") + 2 :].split()[11:15]))


def _reference_s() -> float:
    start_s, total = time.perf_counter(), 0
    for number in range(_REFERENCE_STEPS):
        total += number
    return time.perf_counter() - start_s
