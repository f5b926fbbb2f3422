"""Has a run ended, and which rank is the cause? Pure: what is seen of the ranks and the time are given.

A rank fails by its own report or by being gone without one. When a rank is lost, its peers fail too within
milliseconds, because their connections break: those say so in their reports and are never taken for the cause
while another is known. A rank that stands still is found by its process (stopped), or else by what it wrote:
of those that do not wait for others it is the one that wrote nothing for longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from executor.launchers.failure import Meaning
from executor.launchers.progress import RankRecord, RankState

_NS = 1_000_000_000


@dataclass(frozen=True)
class Limits:
    """How long a run may take; seconds."""

    timeout_s: float = 600.0
    """All of it, from the launch."""
    start_up_s: float = 120.0
    """Until every rank has begun."""
    silence_s: float = 120.0
    """Since any rank last wrote what it does."""
    stopped_s: float = 5.0
    """That the process of a rank may be stopped."""
    settle_s: float = 1.5
    """Between a rank's loss of a peer and the peer's own failure becoming known."""


@dataclass(frozen=True)
class Sighting:
    """A rank at one moment."""

    record: RankRecord
    gone_ns: int | None = None
    """When its process was first seen to have ended."""
    stopped_ns: int | None = None
    """Since when its process has been seen stopped."""


class Cause(StrEnum):
    """Why a run ends before all ranks are done."""

    REPORTED = "reported"
    """A rank left a report."""
    GONE = "gone"
    """A process ended without one."""
    STOPPED = "stopped"
    SILENT = "silent"
    TIMEOUT = "timeout"
    START_UP = "start_up"


@dataclass(frozen=True)
class Verdict:
    """What ended a run; `rank` is None only where no rank has begun."""

    cause: Cause
    rank: int | None
    waited_s: float = 0.0
    """How long nothing had happened, for a rank that stands still."""


def judge(sightings: Sequence[Sighting], *, now_ns: int, launched_ns: int, limits: Limits) -> Verdict | None:
    """The verdict on a run, None while it may go on."""
    failed = first_failure(sightings)
    if failed is not None:
        at_ns = _failed_ns(failed)
        certain = not _lost_a_peer(failed)
        if certain or (now_ns - at_ns) > limits.settle_s * _NS:
            return Verdict(Cause.GONE if failed.record.report is None else Cause.REPORTED, failed.record.rank)
        return None
    return _standing_still(sightings, now_ns=now_ns, launched_ns=launched_ns, limits=limits)


def first_failure(sightings: Sequence[Sighting]) -> Sighting | None:
    """The rank that failed first; one that only lost a peer is taken where there is no other."""
    failed = [sighting for sighting in sightings if _has_failed(sighting)]
    return min(failed, key=lambda sighting: (_lost_a_peer(sighting), _failed_ns(sighting)), default=None)


def _standing_still(
    sightings: Sequence[Sighting], *, now_ns: int, launched_ns: int, limits: Limits
) -> Verdict | None:
    stopped = [sighting for sighting in sightings if sighting.stopped_ns is not None]
    for sighting in sorted(stopped, key=lambda sighting: sighting.stopped_ns or 0):
        waited_s = (now_ns - (sighting.stopped_ns or 0)) / _NS
        if waited_s > limits.stopped_s:
            return Verdict(Cause.STOPPED, sighting.record.rank, waited_s)
    running = [s.record for s in sightings if s.record.state == RankState.RUNNING]
    slowest = min(running, key=lambda record: (record.waiting, record.active_ns), default=None)
    rank = stopped[0].record.rank if stopped else slowest.rank if slowest else None
    quiet_s = (now_ns - (slowest.active_ns if slowest else launched_ns)) / _NS
    elapsed_s = (now_ns - launched_ns) / _NS
    if elapsed_s > limits.timeout_s:
        return Verdict(Cause.TIMEOUT, rank, quiet_s)
    absent = [s.record.rank for s in sightings if s.record.state == RankState.ABSENT]
    if absent and elapsed_s > limits.start_up_s:
        return Verdict(Cause.START_UP, absent[0], elapsed_s)
    latest_ns = max((record.active_ns for record in running), default=now_ns)
    if (now_ns - latest_ns) > limits.silence_s * _NS:
        return Verdict(Cause.SILENT, rank, quiet_s)
    return None


def _has_failed(sighting: Sighting) -> bool:
    state = sighting.record.state
    return state == RankState.FAILED or (sighting.gone_ns is not None and state != RankState.DONE)


def _failed_ns(sighting: Sighting) -> int:
    report = sighting.record.report
    at_ns = int(report["at_ns"]) if report else None
    moments = (at_ns, sighting.record.ended_ns or None, sighting.gone_ns)
    return min(moment for moment in moments if moment is not None)


def _lost_a_peer(sighting: Sighting) -> bool:
    report = sighting.record.report
    return report is not None and report["meaning"] == Meaning.PEER_LOST
