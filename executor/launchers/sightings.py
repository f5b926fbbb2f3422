"""How are the processes of the ranks? Their records, and when each ended or stopped, seen from outside."""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass
from typing import Any

from executor.launchers.processes import read_status
from executor.launchers.progress import ProgressArea, RankRecord
from executor.launchers.watchdog import Sighting

_STATES_NS = 300_000_000
"""So often states are looked up: a stopped process does not tell."""


@dataclass
class _Process:
    descriptor: int | None = None
    gone_ns: int | None = None
    stopped_ns: int | None = None


class RankWatch:
    """Watches the ranks of one area; the end of a process wakes `poll`."""

    def __init__(self, area: ProgressArea, poll: select.poll) -> None:
        self._area, self._poll = area, poll
        self._processes = [_Process() for _ in range(area.ranks)]
        self._states_due_ns = 0

    def look(self) -> list[Sighting]:
        """All ranks as they are now."""
        now_ns = time.monotonic_ns()
        states_due = now_ns >= self._states_due_ns
        if states_due:
            self._states_due_ns = now_ns + _STATES_NS
        return [self._look_at(rank, now_ns, states_due) for rank in range(self._area.ranks)]

    def describe(self) -> list[dict[str, Any]]:
        """What was last seen of every rank, for the answer."""
        return [
            self._described(self._area.read(rank), process) for rank, process in enumerate(self._processes)
        ]

    def _look_at(self, rank: int, now_ns: int, states_due: bool) -> Sighting:
        process, record = self._processes[rank], self._area.read(rank)
        if record.pid and process.gone_ns is None:
            if process.descriptor is None:
                self._follow(process, record.pid, now_ns)
            elif select.select([process.descriptor], [], [], 0)[0]:
                self._has_gone(process, now_ns)
                record = self._area.read(rank)  # its last words, which may be newer
            elif states_due:
                status = read_status(record.pid)
                stopped = status is not None and status.stopped
                process.stopped_ns = (process.stopped_ns or now_ns) if stopped else None
        return Sighting(record, process.gone_ns, process.stopped_ns)

    def _follow(self, process: _Process, pid: int, now_ns: int) -> None:
        try:
            process.descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            process.gone_ns = now_ns
        else:
            self._poll.register(process.descriptor, select.POLLIN)

    def _has_gone(self, process: _Process, now_ns: int) -> None:
        process.gone_ns, process.stopped_ns = now_ns, None
        if process.descriptor is not None:
            self._poll.unregister(process.descriptor)
            os.close(process.descriptor)

    def _described(self, record: RankRecord, process: _Process) -> dict[str, Any]:
        note = record.note
        return {
            "state": record.state.name.lower(),
            "pid": record.pid,
            "activity": record.activity,
            "note": [note.at_ns, note.index, *note.fields] if note else None,
            "report": record.report,
            "wait_status": record.wait_status,
            "gone": process.gone_ns is not None,
        }
