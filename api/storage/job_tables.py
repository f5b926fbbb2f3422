"""What is stored about work and who does it? Jobs with their history, workers, and API keys."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, Integer, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from api.storage.columns import Table, choice
from tuner.messages import JobKind, JobStatus


class Event(StrEnum):
    """What can happen to a job."""

    QUEUED = "queued"
    CLAIMED = "claimed"
    LEASE_EXPIRED = "lease_expired"
    """The worker was not heard of until its lease ended."""
    ATTEMPT_FAILED = "attempt_failed"
    RELEASED = "released"
    CANCEL_REQUESTED = "cancel_requested"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class JobRow(Table):
    """Something that a worker does. Ids rise with time; who holds the token of the lease may write."""

    __tablename__ = "jobs"
    __table_args__ = (Index(None, "status", "priority", "id"),)

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    kind: Mapped[JobKind] = mapped_column(choice(JobKind))
    status: Mapped[JobStatus] = mapped_column(choice(JobStatus))
    priority: Mapped[int]
    """The highest is done first; of equal ones the oldest."""
    created_by: Mapped[str] = mapped_column(String(200))
    study_id: Mapped[str | None] = mapped_column(ForeignKey("studies.id", ondelete="SET NULL"), index=True)
    pool: Mapped[str] = mapped_column(String(100))
    devices: Mapped[int] = mapped_column(BigInteger)
    """Accelerators of one kind that a worker must have."""
    accelerator: Mapped[str | None] = mapped_column(String(200))
    """Their kind; None takes any."""
    memory_bytes: Mapped[int] = mapped_column(BigInteger)
    """Of each, at least."""
    payload: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    fingerprint: Mapped[str | None] = mapped_column(String(64), index=True)
    """Equal for jobs that would answer the same; None where every job is done."""
    subject: Mapped[str | None] = mapped_column(String(64), index=True)
    """Equal for jobs that measure the same thing, however thoroughly."""
    attempts: Mapped[int]
    max_attempts: Mapped[int]
    worker_id: Mapped[str | None] = mapped_column(String(26), index=True)
    """Who holds the lease, or held the last one."""
    taken_from: Mapped[str | None] = mapped_column(String(26))
    """Whose lease ended when the present one began."""
    lease_token: Mapped[str | None] = mapped_column(String(32), unique=True)
    """Kept when the lease ends, so that a repeated finish is known again."""
    lease_expires_at: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    progress: Mapped[dict[str, Any] | None]
    result: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    error: Mapped[dict[str, Any] | None]
    """Why the job failed: message, attempt and evidence."""
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None] = mapped_column(index=True)
    updated_at: Mapped[datetime]


class JobEvent(Table):
    """Something that happened to a job, in this order; rows are only added."""

    __tablename__ = "job_events"

    # SQLite counts up only what is declared as INTEGER.
    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), index=True)
    event: Mapped[Event] = mapped_column(choice(Event))
    attempt: Mapped[int]
    worker_id: Mapped[str | None] = mapped_column(String(26))
    details: Mapped[dict[str, Any] | None]
    at: Mapped[datetime]


class JobAttachment(Table):
    """A log or a trace of an attempt, deflated; deleted when its time is over."""

    __tablename__ = "job_attachments"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(60), primary_key=True)
    media_type: Mapped[str] = mapped_column(String(100))
    size_bytes: Mapped[int] = mapped_column(BigInteger)
    cut: Mapped[bool]
    content: Mapped[bytes] = mapped_column(LargeBinary, deferred=True)
    created_at: Mapped[datetime] = mapped_column(index=True)


class WorkerRow(Table):
    """A process that asked for jobs."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    owner: Mapped[str] = mapped_column(String(200))
    name: Mapped[str] = mapped_column(String(200))
    inventory: Mapped[dict[str, Any]]
    first_seen_at: Mapped[datetime]
    last_seen_at: Mapped[datetime] = mapped_column(index=True)


class ApiKey(Table):
    """A key by its SHA-256. Rows are never deleted, so what a key did stays attributed."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    owner: Mapped[str] = mapped_column(String(200))
    scopes: Mapped[list[str]] = mapped_column(JSON)
    for_people: Mapped[bool]
    """Whether it may do more than work: the first such key ends the time without keys."""
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    created_by: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
