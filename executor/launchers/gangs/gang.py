"""How is a gang of placed ranks run? It begins when all places are there, and is judged as one, here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Protocol

from executor.launchers.gangs.seen import Document, nobody, read_sighting
from executor.launchers.launch import Launch
from executor.launchers.outcome import Status
from executor.launchers.watchdog import Cause, Sighting, Verdict, judge

_TICK_S = 0.2
_GRACE_S = 4.0
"""After its end a gang may still have something to say; so may a rank about its exit, and the cluster."""


@dataclass(frozen=True)
class Heard:
    """What is known of one place."""

    at_ns: int = 0
    """When `seen` was heard, on the clock of this machine."""
    here: Document | None = None
    """host, address and port of its machine."""
    seen: Document | None = None
    result: str | None = None
    """What the rank returned, as JSON text."""
    lost: str | None = None
    """How the place was lost, in words."""


@dataclass(frozen=True)
class Ended:
    """The cluster ended the whole gang, or never placed it."""

    status: Status
    message: str
    log: str = ""


class Places(Protocol):
    """Where the ranks of a launch are, one in each."""

    def look(self) -> Sequence[Heard]:
        """All of them in order of rank, as they are now."""

    def begin(self, address: str, port: int) -> None:
        """Let all ranks start, and meet there."""

    def ended(self) -> Ended | None:
        """How the cluster ended the gang, if it did."""


def attend(places: Places, launch: Launch, *, wait: Callable[[float], None]) -> Document:
    """Run a gang that has its places until all ranks have answered or one has ended it.

    Gives the document that `executor.launchers.findings` reads. `wait` sleeps, or raises to end the run.
    """
    launched_ns, begun, ended_ns = time.monotonic_ns(), False, 0
    while True:
        heard = places.look()
        if not begun and all(place.here for place in heard):
            first = heard[0].here or {}
            places.begin(first["address"], first["port"])
            begun = True
        sightings = [_sighting(place, rank) for rank, place in enumerate(heard)]
        if all(place.result is not None for place in heard):
            return _answer(heard, sightings, launched_ns=launched_ns)
        now_ns = time.monotonic_ns()
        ended = places.ended()
        ended_ns = (ended_ns or now_ns) if ended else 0
        if ended and now_ns - ended_ns > _GRACE_S * 1e9:
            return _answer(heard, sightings, launched_ns=launched_ns) | {"ended": asdict(ended)}
        verdict = judge(sightings, now_ns=now_ns, launched_ns=launched_ns, limits=launch.limits)
        if verdict is not None and not ended:
            return _settle(places, verdict, launched_ns=launched_ns, wait=wait)
        wait(_TICK_S)


def _settle(places: Places, verdict: Verdict, *, launched_ns: int, wait: Callable[[float], None]) -> Document:
    """The answer, once it is known how the process ended and that it was not the cluster that ended it."""
    deadline = time.monotonic() + _GRACE_S
    while True:
        heard, ended = places.look(), places.ended()
        rank = verdict.rank
        sightings = [_sighting(place, each) for each, place in enumerate(heard)]
        clear = verdict.cause != Cause.GONE or (rank is not None and _left(sightings[rank]))
        if ended or clear or time.monotonic() > deadline:
            break
        wait(_TICK_S)
    answer = _answer(heard, sightings, launched_ns=launched_ns, verdict=verdict)
    return answer | ({"ended": asdict(ended)} if ended else {})


def _left(seen: Sighting) -> bool:
    """Whether the process is known to have gone by itself: a cluster that ends it would send a signal."""
    status = seen.record.wait_status
    return status is not None and os.WIFEXITED(status)


def _sighting(heard: Heard, rank: int) -> Sighting:
    seen = read_sighting(heard.seen, rank, now_ns=heard.at_ns) if heard.seen else nobody(rank)
    if heard.lost is not None and seen.gone_ns is None:
        return replace(seen, gone_ns=time.monotonic_ns())
    return seen


def _answer(
    heard: Sequence[Heard],
    sightings: Sequence[Sighting],
    *,
    launched_ns: int,
    verdict: Verdict | None = None,
) -> Document:
    results = [place.result for place in heard]
    log_of = verdict.rank if verdict and verdict.rank is not None else 0
    return {
        "verdict": asdict(verdict) if verdict else None,
        "rank": verdict.rank if verdict else None,
        "ranks": [_described(place, seen) for place, seen in zip(heard, sightings, strict=True)],
        "agent": {"status": None} | ({"results": results} if None not in results else {}),
        "log": (heard[log_of].seen or {}).get("log", ""),
        "oom_kills": (heard[log_of].seen or {}).get("oom_kills", 0),
        "elapsed_s": (time.monotonic_ns() - launched_ns) / 1e9,
    }


def _described(heard: Heard, seen: Sighting) -> Document:
    record = seen.record
    note = record.note
    return {
        "state": record.state.name.lower(),
        "activity": record.activity,
        "note": [note.at_ns, note.index, *note.fields] if note else None,
        "report": record.report,
        "wait_status": record.wait_status,
        "host": heard.here["host"] if heard.here else None,
        "lost": heard.lost,
    }
