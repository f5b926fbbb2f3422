"""What has a job started, and is all of it gone? Every process below this one that was not there before."""

import os
import signal
import time
from contextlib import suppress

from executor.launchers.processes import descendants, read_status

_PAUSE_S = 0.05


class Started:
    """Remembers the processes below this one; what comes later is the job's.

    A process that adopts orphans (`executor.launchers.processes.adopt_orphans`) loses none from sight, any
    other one those whose parent ended before `look`.
    """

    def __init__(self) -> None:
        self._before = frozenset(_identities())
        self._seen: set[tuple[int, int]] = set()

    def look(self) -> None:
        """Remember those that are there now, whoever becomes their parent."""
        self._seen |= set(_identities()) - self._before

    def end(self, *, within_s: float, patience_s: float) -> list[int]:
        """Wait `patience_s` seconds for them to end by themselves, then kill; gives what is left at the end.

        A supervisor of ranks that sees its caller gone ends them and removes their files, if it is let.
        """
        begun = time.monotonic()
        while left := self._left():
            passed_s = time.monotonic() - begun
            if passed_s > within_s:
                break
            if passed_s > patience_s:
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(_PAUSE_S)
        return left

    def _left(self) -> list[int]:
        self.look()
        found = []
        for pid, began in self._seen:
            status = read_status(pid)
            if status is None or status.began != began:
                continue
            if not status.ended:
                found.append(pid)
            elif status.parent == os.getpid():
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return found


def _identities() -> list[tuple[int, int]]:
    statuses = ((pid, read_status(pid)) for pid in descendants(os.getpid()))
    return [(pid, status.began) for pid, status in statuses if status is not None]
