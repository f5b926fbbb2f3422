"""How does a machine tell another what it sees of a rank? As JSON, with ages instead of moments.

The monotonic clocks of two machines have nothing in common: a moment of the past is told as the nanoseconds
since then, and becomes a moment of the listener's clock when it is heard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from executor.launchers.progress import Note, RankRecord, RankState
from executor.launchers.watchdog import Sighting

Document = dict[str, Any]


def tell_sighting(seen: Sighting, *, now_ns: int) -> Document:
    """What `read_sighting` understands elsewhere; `now_ns` is the clock of this machine."""
    record, age = seen.record, _shift(now_ns)
    note, report = record.note, record.report
    return {
        "state": int(record.state),
        "pid": record.pid,
        "activity": record.activity,
        "waiting": record.waiting,
        "note": [age(note.at_ns), note.index, *note.fields] if note else None,
        "report": report | {"at_ns": age(report["at_ns"])} if report else None,
        "wait_status": record.wait_status,
        "started": age(record.started_ns),
        "active": age(record.active_ns),
        "ended": age(record.ended_ns),
        "gone": age(seen.gone_ns),
        "stopped": age(seen.stopped_ns),
    }


def read_sighting(told: Document, rank: int, *, now_ns: int) -> Sighting:
    """What was told at `now_ns` of the clock of this machine."""
    moment = _shift(now_ns)
    note, report = told["note"], told["report"]
    record = RankRecord(
        rank=rank,
        state=RankState(told["state"]),
        pid=told["pid"],
        started_ns=moment(told["started"]) or 0,
        active_ns=moment(told["active"]) or 0,
        activity=told["activity"],
        note=Note(moment(note[0]) or 0, note[1], tuple(note[2:])) if note else None,
        waiting=told["waiting"],
        report=report | {"at_ns": moment(report["at_ns"])} if report else None,
        ended_ns=moment(told["ended"]) or 0,
        wait_status=told["wait_status"],
    )
    return Sighting(record, moment(told["gone"]), moment(told["stopped"]))


def nobody(rank: int) -> Sighting:
    """A rank of which nothing was told yet."""
    return Sighting(RankRecord(rank, RankState.ABSENT, 0, 0, 0, "", None, False, None))


def _shift(now_ns: int) -> Callable[[int | None], int | None]:
    """From moments to ages, and back; 0 and None mean that something has not been."""
    return lambda value: now_ns - value if value else None
