"""Who works on which job, and until when? One statement leases the first job that fits, on both databases.

A worker claims a job for a while and says by heartbeats that it is alive. When it falls silent, the next
claim that fits takes the job over.
"""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, case, func, literal, or_, select, update
from sqlalchemy.orm import Session

from api.jobs.history import note
from api.jobs.queue import find_job, stale
from api.storage.columns import UtcDateTime
from api.storage.tables import Event, JobRow
from tuner.messages import Claim, Heartbeat, JobStatus, WorkerInventory


def there_is_work(session: Session, worker: WorkerInventory, *, now: datetime) -> bool:
    """Whether a claim would find something; cheaper than a claim, which takes SQLite's write lock."""
    return session.scalar(select(JobRow.id).where(_claimable(worker, now)).limit(1)) is not None


def held_by(session: Session, token: str) -> JobRow | None:
    """The job that a claim with this token was given before."""
    return session.scalar(
        select(JobRow).where(JobRow.lease_token == token, JobRow.status == JobStatus.RUNNING)
    )


def claim(session: Session, message: Claim, *, now: datetime, lease: timedelta) -> JobRow | None:
    """Lease the first job that the worker can do: one that waits, or one whose worker fell silent.

    Raises IntegrityError when the token was used for another job.
    """
    first = (
        select(JobRow.id)
        .where(_claimable(message.worker, now))
        .order_by(JobRow.priority.desc(), JobRow.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = session.scalar(
        update(JobRow)
        .where(JobRow.id == first.scalar_subquery())
        .values(
            status=JobStatus.RUNNING,
            attempts=JobRow.attempts + 1,
            taken_from=case((JobRow.status == JobStatus.RUNNING, JobRow.worker_id)),
            worker_id=message.worker.id,
            lease_token=message.token,
            lease_expires_at=now + lease,
            progress=None,
            started_at=func.coalesce(JobRow.started_at, literal(now, UtcDateTime())),
            updated_at=now,
        )
        .returning(JobRow)
        .execution_options(synchronize_session=False)
    )
    if row is None:
        return None
    if row.taken_from is not None:
        note(session, row, Event.LEASE_EXPIRED, now=now, attempt=row.attempts - 1, worker_id=row.taken_from)
    note(session, row, Event.CLAIMED, now=now)
    return row


def heartbeat(
    session: Session, job_id: str, message: Heartbeat, *, now: datetime, lease: timedelta
) -> JobRow:
    """Extend the lease; raises NotFoundProblem, and StaleLeaseProblem when it is not held any more."""
    row = session.scalar(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.lease_token == message.token, JobRow.status == JobStatus.RUNNING)
        .values(
            lease_expires_at=now + lease,
            updated_at=now,
            **({} if message.progress is None else {"progress": message.progress}),
        )
        .returning(JobRow)
        .execution_options(synchronize_session=False)
    )
    if row is None:
        raise stale(find_job(session, job_id))
    return row


def _claimable(worker: WorkerInventory, now: datetime) -> ColumnElement[bool]:
    """Waiting, or left by a worker that fell silent; and of what the worker can do, with what it has."""
    waits = JobRow.status == JobStatus.QUEUED
    left = and_(
        JobRow.status == JobStatus.RUNNING,
        JobRow.lease_expires_at <= now,
        JobRow.attempts < JobRow.max_attempts,
        JobRow.cancel_requested_at.is_(None),
    )
    suffices = [
        and_(
            or_(JobRow.accelerator.is_(None), JobRow.accelerator == group.accelerator),
            JobRow.devices <= group.count,
            JobRow.memory_bytes <= group.memory_bytes,
        )
        for group in worker.devices
    ]
    return and_(
        # Stated twice, so that the index over the status is used.
        JobRow.status.in_((JobStatus.QUEUED, JobStatus.RUNNING)),
        or_(waits, left),
        JobRow.kind.in_(worker.kinds),
        JobRow.pool.in_(worker.pools),
        or_(JobRow.devices == 0, *suffices),
    )
