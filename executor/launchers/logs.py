"""Where do the logs of a run go, what stands at their end, and what did the kernel do meanwhile?"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import BinaryIO

_TAIL_BYTES = 4_000


def make_logs(folder: str | None, scratch: Path) -> Path:
    """A new folder for logs; where a disk has no room for one, the scratch folder."""
    try:
        return Path(tempfile.mkdtemp(prefix="chimera-logs-", dir=folder or scratch))
    except OSError:
        return scratch


def open_log(path: Path) -> BinaryIO:
    """To be added to; nowhere if there is no place for it."""
    try:
        return path.open("ab")
    except OSError:
        return Path(os.devnull).open("ab")


def tail(path: Path) -> str:
    """The end of a log; empty if there is none."""
    try:
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return log.read().decode("utf-8", "replace")
    except OSError:
        return ""


def oom_kills() -> int:
    """Processes that the kernel of this machine has killed for want of memory so far, as it tells."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
