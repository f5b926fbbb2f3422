"""How is the queue? How many jobs of each kind wait, run and ended lately, and which failed and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from api.jobs import workers
from api.jobs.listing import job_entry
from api.storage.tables import JobRow, WorkerRow
from tuner.messages import JobKind, JobStatus

LATELY = timedelta(days=1)


@dataclass(frozen=True)
class KindOfWork:
    """The jobs of one kind."""

    kind: JobKind
    counts: dict[JobStatus, int]
    """All that wait and run, and those that ended within a day."""
    oldest: datetime | None
    """Since when the oldest of those that wait does."""


def overview(session: Session, *, now: datetime) -> list[KindOfWork]:
    """Every kind of job."""
    going_on = JobRow.status.in_((JobStatus.QUEUED, JobStatus.RUNNING))
    counts = dict(_counts(session, going_on)) | dict(_counts(session, JobRow.finished_at > now - LATELY))
    waiting = select(JobRow.kind, func.min(JobRow.created_at)).where(JobRow.status == JobStatus.QUEUED)
    oldest = dict(session.execute(waiting.group_by(JobRow.kind)).all())
    return [
        KindOfWork(kind, {status: counts.get((kind, status), 0) for status in JobStatus}, oldest.get(kind))
        for kind in JobKind
    ]


def count_workers(session: Session, *, now: datetime) -> tuple[int, int]:
    """How many workers are connected, and how many fell silent."""
    everyone = session.scalar(select(func.count()).select_from(WorkerRow)) or 0
    heard = WorkerRow.last_seen_at > now - workers.SILENCE
    present = session.scalar(select(func.count()).select_from(WorkerRow).where(heard)) or 0
    return present, everyone - present


def waiting_jobs(session: Session, *, limit: int, base: str, now: datetime) -> list[dict[str, Any]]:
    """Those that wait, as they are claimed: the highest priority first, of equal ones the oldest."""
    query = select(JobRow).where(JobRow.status == JobStatus.QUEUED)
    found = session.scalars(query.order_by(JobRow.priority.desc(), JobRow.id).limit(limit)).all()
    return _entries(found, base=base, present=workers.connected(session, now=now) if found else [])


def running_jobs(session: Session, *, limit: int, base: str) -> list[dict[str, Any]]:
    """Those that run, the oldest first, with the name of the worker that does."""
    query = select(JobRow).where(JobRow.status == JobStatus.RUNNING)
    found = session.scalars(query.order_by(JobRow.id).limit(limit)).all()
    return _named(session, _entries(found, base=base, present=[]))


def failed_jobs(session: Session, *, limit: int, base: str) -> list[dict[str, Any]]:
    """The last that failed, with the name of the worker that had them."""
    query = select(JobRow).where(JobRow.status == JobStatus.FAILED)
    found = session.scalars(query.order_by(JobRow.finished_at.desc(), JobRow.id.desc()).limit(limit)).all()
    return _named(session, _entries(found, base=base, present=[]))


def _counts(session: Session, which: Any) -> list[tuple[tuple[JobKind, JobStatus], int]]:
    query = select(JobRow.kind, JobRow.status, func.count()).where(which).group_by(JobRow.kind, JobRow.status)
    return [((kind, status), count) for kind, status, count in session.execute(query)]


def _entries(rows: Sequence[JobRow], *, base: str, present: list[Any]) -> list[dict[str, Any]]:
    return [job_entry(row, base=base, present=present) for row in rows]


def _named(session: Session, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    wanted = {entry["worker"] for entry in entries if entry["worker"]}
    query = select(WorkerRow.id, WorkerRow.name).where(WorkerRow.id.in_(wanted))
    names = {row.id: row.name for row in session.execute(query)}
    return [entry | {"worker_name": names.get(entry["worker"], entry["worker"])} for entry in entries]
