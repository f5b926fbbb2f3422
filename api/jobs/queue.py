"""What becomes of a job? It waits, is leased (`api.leases`), ends once, or is stopped.

Whoever writes holds the token of the lease, so a worker that fell silent and comes back changes nothing.
Every call is one short transaction of its caller; nothing is worked on inside it.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from api.jobs.history import note
from api.storage.identifiers import new_identifier
from api.storage.tables import Event, JobAttachment, JobRow
from api.web.problems import ConflictProblem, NotFoundProblem, StaleLeaseProblem
from tuner.attachments import Attachment
from tuner.messages import (
    FINAL_STATUSES,
    Cancelled,
    Done,
    Failed,
    JobKind,
    JobStatus,
    Outcome,
    Released,
)

_SETTLED_AT_ONCE = 100


@dataclass(frozen=True)
class NewJob:
    """Something to be done, and what a worker needs for it."""

    kind: JobKind
    payload: dict[str, Any]
    created_by: str
    study_id: str | None = None
    pool: str = "default"
    devices: int = 1
    accelerator: str | None = None
    memory_bytes: int = 0
    priority: int = 0
    max_attempts: int = 3
    fingerprint: str | None = None
    """Equal for jobs that would answer the same; None where every job is done."""
    subject: str | None = None
    """Equal for jobs that measure the same thing, however thoroughly."""


@dataclass(frozen=True)
class Ending:
    """How a job ended, checked and ready to be written."""

    token: str
    outcome: Outcome
    result: dict[str, Any] | None = None
    """What is kept of the result, when it is done."""
    attachments: list[tuple[Attachment, bytes]] = field(default_factory=list)
    """Each with its deflated content."""


def enqueue(session: Session, job: NewJob, *, now: datetime) -> JobRow:
    """Add a job at the end of those of its priority."""
    row = JobRow(
        id=new_identifier(now),
        status=JobStatus.QUEUED,
        attempts=0,
        created_at=now,
        updated_at=now,
        **vars(job),
    )
    session.add(row)
    session.flush()
    note(session, row, Event.QUEUED, now=now)
    return row


def finish(session: Session, job_id: str, ending: Ending, *, now: datetime) -> tuple[JobRow, bool]:
    """Write how the job ended; True when the same lease had written it before, and nothing was changed.

    Raises NotFoundProblem, and StaleLeaseProblem for any lease but the last one.
    """
    row = find_job(session, job_id, lock=True)
    if row.lease_token != ending.token:
        raise stale(row)
    if row.status != JobStatus.RUNNING:
        return row, True
    for attachment, content in ending.attachments:
        session.merge(
            JobAttachment(
                job_id=row.id,
                attempt=row.attempts,
                name=attachment.name,
                media_type=attachment.media_type,
                size_bytes=attachment.size_bytes,
                cut=attachment.cut,
                content=content,
                created_at=now,
            )
        )
    match ending.outcome:
        case Done():
            row.result = ending.result
            _end(session, row, JobStatus.DONE, now=now)
        case Failed() as failed:
            _fail_attempt(session, row, failed, now=now)
        case Cancelled():
            _end(session, row, JobStatus.CANCELLED, now=now)
        case Released(reason=reason):
            note(session, row, Event.RELEASED, now=now, reason=reason)
            row.attempts -= 1
            _put_back(session, row, now=now)
    return row, False


def cancel(session: Session, job_id: str, *, now: datetime) -> JobRow:
    """Stop a job: at once while it waits; when it runs, its worker is told with the next heartbeat.

    What was cancelled stays so. Raises NotFoundProblem, and ConflictProblem when it ended otherwise.
    """
    row = find_job(session, job_id, lock=True)
    if row.status in {JobStatus.DONE, JobStatus.FAILED}:
        raise ConflictProblem(f"job {row.id} is {row.status}: there is nothing left to cancel")
    _cancel(session, row, now=now)
    return row


def cancel_jobs_of(session: Session, study_id: str, *, now: datetime) -> None:
    """Stop every job of a study that has not ended."""
    going_on = JobRow.status.not_in(FINAL_STATUSES)
    for row in session.scalars(
        select(JobRow).where(JobRow.study_id == study_id, going_on).order_by(JobRow.id).with_for_update()
    ):
        _cancel(session, row, now=now)


def hand_over(session: Session, job_id: str, *, study_id: str) -> None:
    """Make a job that has not ended another study's."""
    session.execute(
        update(JobRow)
        .where(JobRow.id == job_id, JobRow.status.not_in(FINAL_STATUSES))
        .values(study_id=study_id)
        .execution_options(synchronize_session=False)
    )


def settle_abandoned(session: Session, *, now: datetime) -> int:
    """End the jobs whose worker fell silent and that nobody may take over; returns how many."""
    rows = session.scalars(
        select(JobRow)
        .where(JobRow.status == JobStatus.RUNNING, JobRow.lease_expires_at <= now)
        .where(or_(JobRow.attempts >= JobRow.max_attempts, JobRow.cancel_requested_at.is_not(None)))
        .limit(_SETTLED_AT_ONCE)
        .with_for_update(skip_locked=True)
    ).all()
    for row in rows:
        note(session, row, Event.LEASE_EXPIRED, now=now)
        row.lease_token = None
        if row.cancel_requested_at is not None:
            _end(session, row, JobStatus.CANCELLED, now=now)
        else:
            message = (
                f"the worker was not heard of until its lease ended, in attempt {row.attempts} of "
                f"{row.max_attempts}: see the log of worker {row.worker_id}, and whether the job ends it"
            )
            row.error = {
                "message": message,
                "evidence": {"progress": row.progress},
                "attempt": row.attempts,
                "worker": row.worker_id,
            }
            _end(session, row, JobStatus.FAILED, now=now, message=message)
    return len(rows)


def find_job(session: Session, job_id: str, *, lock: bool = False) -> JobRow:
    """The job with that id; raises NotFoundProblem."""
    row = session.get(JobRow, job_id, with_for_update=lock or None)
    if row is None:
        raise NotFoundProblem(f"there is no job {job_id[:80]!r}; /v1/jobs lists them")
    return row


def stale(row: JobRow) -> StaleLeaseProblem:
    """Why a lease is over, and what the worker should do."""
    if row.status == JobStatus.RUNNING:
        why = f"worker {row.worker_id} took it over in attempt {row.attempts}, after the lease had ended"
    else:
        why = f"it is {row.status}"
    return StaleLeaseProblem(
        f"this lease of job {row.id} is over: {why}. Stop working on it and claim another one"
    )


def _fail_attempt(session: Session, row: JobRow, failed: Failed, *, now: datetime) -> None:
    details: dict[str, Any] = {"message": failed.message, "evidence": failed.evidence}
    row.error = details | {"attempt": row.attempts, "worker": row.worker_id}
    if row.cancel_requested_at is not None:
        _end(session, row, JobStatus.CANCELLED, now=now, **details)
    elif failed.retry and row.attempts < row.max_attempts:
        note(session, row, Event.ATTEMPT_FAILED, now=now, **details)
        _put_back(session, row, now=now)
    else:
        _end(session, row, JobStatus.FAILED, now=now, **details)


def _put_back(session: Session, row: JobRow, *, now: datetime) -> None:
    if row.cancel_requested_at is not None:
        _end(session, row, JobStatus.CANCELLED, now=now)
        return
    row.status, row.worker_id, row.lease_expires_at, row.updated_at = JobStatus.QUEUED, None, None, now


def _cancel(session: Session, row: JobRow, *, now: datetime) -> None:
    if row.status == JobStatus.QUEUED:
        _end(session, row, JobStatus.CANCELLED, now=now)
    elif row.status == JobStatus.RUNNING and row.cancel_requested_at is None:
        row.cancel_requested_at = row.updated_at = now
        note(session, row, Event.CANCEL_REQUESTED, now=now)


def _end(session: Session, row: JobRow, status: JobStatus, *, now: datetime, **details: Any) -> None:
    row.status, row.lease_expires_at = status, None
    row.finished_at = row.updated_at = now
    if status == JobStatus.DONE:
        row.error = None
    note(session, row, Event(status), now=now, **details)
