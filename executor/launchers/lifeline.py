"""Does whoever started this program still want its answer? Stdin is a lifeline, cut when the caller ends."""

from __future__ import annotations

import os
import select
import signal


class Abandoned(Exception):  # noqa: N818 (nothing failed)
    """The caller is gone, or has cancelled the run."""


class Lifeline:
    """Held by the process `caller`, this one's parent; SIGTERM and SIGHUP cut it too."""

    def __init__(self, caller: int) -> None:
        self._caller, self._cancelled = caller, False

    def listen(self) -> None:
        """Take the signals; that of a terminal goes to the caller, who decides."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._cancel)
        signal.signal(signal.SIGHUP, self._cancel)

    @property
    def cut(self) -> bool:
        """Whether nobody waits any more; stdin is only ever readable at its end."""
        ready, _, _ = select.select([0], [], [], 0)
        return bool(ready) or self._cancelled or os.getppid() != self._caller

    def wait(self, seconds: float) -> None:
        """Sleep, at most until it is cut; raises Abandoned if it is."""
        select.select([0], [], [], seconds)
        if self.cut:
            raise Abandoned

    def _cancel(self, *_: object) -> None:
        self._cancelled = True
