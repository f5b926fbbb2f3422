"""What happened to a job? Every step of it, kept in the order in which it was written."""

from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from api.storage.tables import Event, JobEvent, JobRow


def note(
    session: Session,
    row: JobRow,
    event: Event,
    *,
    now: datetime,
    attempt: int | None = None,
    worker_id: str | None = None,
    **details: Any,
) -> None:
    """Add to the history of the job."""
    session.add(
        JobEvent(
            job_id=row.id,
            event=event,
            attempt=row.attempts if attempt is None else attempt,
            worker_id=worker_id or row.worker_id,
            details=details or None,
            at=now,
        )
    )


def read_history(session: Session, job_id: str) -> list[dict[str, Any]]:
    """All that happened to the job, the first first."""
    query = select(JobEvent).where(JobEvent.job_id == job_id).order_by(JobEvent.id)
    return [
        {
            "event": entry.event.value,
            "at": entry.at.isoformat(),
            "attempt": entry.attempt,
            "worker": entry.worker_id,
            "details": entry.details,
        }
        for entry in session.scalars(query)
    ]
