"""What do people see of jobs? Lists, and one job with its history, its logs and traces."""

import zlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from api.jobs import workers
from api.jobs.history import read_history
from api.jobs.queue import find_job
from api.storage.tables import JobAttachment, JobRow
from api.web.paging import newest_rows, page
from api.web.problems import NotFoundProblem
from tuner.messages import JobKind, JobStatus, WorkerInventory


@dataclass(frozen=True)
class Filter:
    """Which jobs a list holds; None takes all."""

    status: JobStatus | None = None
    kind: JobKind | None = None
    pool: str | None = None
    study_id: str | None = None
    worker_id: str | None = None


def list_jobs(
    session: Session, wanted: Filter, *, cursor: str | None, limit: int, base: str, now: datetime
) -> dict[str, Any]:
    """A page of jobs, the newest first, without payload, result and history."""
    query = select(JobRow)
    for column, value in vars(wanted).items():
        if value is not None:
            query = query.where(getattr(JobRow, column) == value)
    found, following = newest_rows(session, query, JobRow.id, cursor=cursor, limit=limit)
    present = workers.connected(session, now=now) if any(_waits(row) for row in found) else []
    return page([job_entry(row, base=base, present=present) for row in found], following)


def job_document(session: Session, job_id: str, *, base: str, now: datetime) -> dict[str, Any]:
    """A job with payload, result, attachments and everything that happened to it; raises NotFoundProblem."""
    row = find_job(session, job_id)
    attached = session.scalars(
        select(JobAttachment)
        .where(JobAttachment.job_id == job_id)
        .order_by(JobAttachment.attempt, JobAttachment.name)
    )
    here = f"{base}/v1/jobs/{job_id}/attachments"
    return {
        **job_entry(row, base=base, present=workers.connected(session, now=now) if _waits(row) else []),
        "payload": row.payload,
        "result": row.result,
        "history": read_history(session, job_id),
        "attachments": [
            {
                "attempt": entry.attempt,
                "name": entry.name,
                "media_type": entry.media_type,
                "size_bytes": entry.size_bytes,
                "cut": entry.cut,
                "link": f"{here}/{entry.attempt}/{entry.name}",
            }
            for entry in attached
        ],
    }


def job_entry(row: JobRow, *, base: str, present: list[WorkerInventory]) -> dict[str, Any]:
    """A job in a few keys; the token of its lease is its worker's alone."""
    moments = (
        "cancel_requested_at",
        "lease_expires_at",
        "created_at",
        "started_at",
        "finished_at",
        "updated_at",
    )
    return {
        "id": row.id,
        "kind": row.kind.value,
        "status": row.status.value,
        "waiting_for": workers.needed(row, present) if _waits(row) else None,
        "priority": row.priority,
        "pool": row.pool,
        "requirements": {
            "devices": row.devices,
            "accelerator": row.accelerator,
            "memory_bytes": row.memory_bytes,
        },
        "attempts": row.attempts,
        "max_attempts": row.max_attempts,
        "worker": row.worker_id,
        "study_id": row.study_id,
        "progress": row.progress,
        "error": row.error,
        "created_by": row.created_by,
        **{name: moment.isoformat() if (moment := getattr(row, name)) else None for name in moments},
        "links": {"self": f"{base}/v1/jobs/{row.id}", "cancel": f"{base}/v1/jobs/{row.id}/cancel"},
    }


def read_attachment(session: Session, job_id: str, *, attempt: int, name: str) -> JobAttachment:
    """A log or a trace with its deflated content; raises NotFoundProblem."""
    found = session.get(JobAttachment, (job_id, attempt, name), options=[undefer(JobAttachment.content)])
    if found is None:
        raise NotFoundProblem(
            f"attempt {attempt:,} of job {job_id[:80]!r} has no {name[:80]!r}: the job lists what there is; "
            "what is older than CHIMERA_RETENTION_DAYS was deleted"
        )
    return found


def inflated(attachment: JobAttachment) -> bytes:
    """The content as it was before it was deflated."""
    return zlib.decompress(attachment.content)


def _waits(row: JobRow) -> bool:
    return row.status == JobStatus.QUEUED
