"""Which processes has this one started, how are they, and how are all of them ended? Linux, over /proc."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PAUSE_S = 0.01
_TRACKER_S = 2.0


@dataclass(frozen=True)
class ProcessStatus:
    """A line of /proc/PID/stat."""

    letter: str
    """R running, S sleeping, D waiting for a device, T stopped, Z ended but not collected, ..."""
    parent: int
    began: int
    """Clock ticks since the machine started: with the id it names a process for good."""

    @property
    def ended(self) -> bool:
        """It runs no more, whether or not its parent has collected it."""
        return self.letter in "ZX"

    @property
    def stopped(self) -> bool:
        """By SIGSTOP or the terminal; not by a debugger."""
        return self.letter == "T"


def read_status(pid: int) -> ProcessStatus | None:
    """How a process is; None if there is none of that id."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessStatus(fields[0], int(fields[1]), int(fields[19]))


def die_with_parent(parent: int | None = None) -> None:
    """Be killed when the parent process ends, however it does; at once if that is not `parent` any more."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is lost from sight."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def descendants(root: int) -> list[int]:
    """Ids of all processes below `root`, ended ones that nobody has collected too."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        status = read_status(int(entry.name)) if entry.name.isdigit() else None
        if status is not None:
            children[status.parent].append(int(entry.name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children[waiting.pop()]
        found += below
        waiting += below
    return found


def end_descendants(*, within_s: float = 5.0) -> list[int]:
    """Kill and collect everything below this process, which adopts orphans; gives what could not be ended.

    multiprocessing's resource tracker goes last, and by itself: it removes the semaphores of the others.
    """
    deadline = time.monotonic() + within_s
    patience = time.monotonic() + min(_TRACKER_S, within_s / 2)
    while True:
        collect()
        left = [pid for pid in descendants(os.getpid()) if not _has_ended(pid)]
        others = [pid for pid in left if not _is_tracker(pid)]
        now = time.monotonic()
        for pid in left if now > patience else others:
            _kill(pid)
        if not left or now > deadline:
            collect()
            return left
        time.sleep(_PAUSE_S)


def collect() -> dict[int, int]:
    """Collect the children that have ended: their wait statuses by id."""
    statuses: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return statuses
        if pid == 0:
            return statuses
        statuses[pid] = status


def _prctl(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, int(value), 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}, {value}): {os.strerror(number)}")


def _has_ended(pid: int) -> bool:
    status = read_status(pid)
    return status is None or status.ended


def _is_tracker(pid: int) -> bool:
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
