"""What is stored? The tables, the same on SQLite and Postgres."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from api.columns import Table, choice
from api.job_tables import ApiKey, Event, JobAttachment, JobEvent, JobRow, WorkerRow

__all__ = [
    "FINAL",
    "ApiKey",
    "DocumentKind",
    "Event",
    "IdempotencyKey",
    "JobAttachment",
    "JobEvent",
    "JobRow",
    "StoredDocument",
    "Study",
    "StudyStatus",
    "Table",
    "WorkerRow",
]


class StudyStatus(StrEnum):
    """Where a study stands; the last three are final."""

    QUEUED = "queued"
    PROFILING = "profiling"
    SEARCHING = "searching"
    MEASURING = "measuring"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


FINAL = frozenset({StudyStatus.DONE, StudyStatus.FAILED, StudyStatus.CANCELLED})


class DocumentKind(StrEnum):
    """What a stored document describes; the value is its place under /v1."""

    PROFILE = "profiles"
    CLUSTER = "clusters"
    MEASUREMENTS = "measurements"


class Study(Table):
    """A question and its answer. Ids rise with time, so the newest are the last ones."""

    __tablename__ = "studies"
    __table_args__ = (Index(None, "status", "id"), Index(None, "model", "id"))

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    name: Mapped[str | None] = mapped_column(String(200))
    created_by: Mapped[str] = mapped_column(String(200))
    status: Mapped[StudyStatus] = mapped_column(choice(StudyStatus))
    waiting_for: Mapped[str | None] = mapped_column(String(500))
    model: Mapped[str] = mapped_column(String(200))
    cluster: Mapped[str] = mapped_column(String(200))
    devices: Mapped[int] = mapped_column(BigInteger)
    mini_batch_size: Mapped[int] = mapped_column(BigInteger)
    answer: Mapped[dict[str, Any] | None]
    """The chosen configuration in a few keys, for lists; None when nothing fits."""
    request: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    """The request as it came in, without name and refine."""
    plan: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class StoredDocument(Table):
    """A profile, cluster or set of measurements, found by the SHA-256 of its canonical text."""

    __tablename__ = "documents"

    kind: Mapped[DocumentKind] = mapped_column(choice(DocumentKind), primary_key=True)
    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    created_by: Mapped[str] = mapped_column(String(200))
    document: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    created_at: Mapped[datetime] = mapped_column(index=True)


class IdempotencyKey(Table):
    """A key that a client sent with a request that creates, and the answer it got."""

    __tablename__ = "idempotency_keys"

    owner: Mapped[str] = mapped_column(String(200), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    """SHA-256 of method, path and body."""
    token: Mapped[str] = mapped_column(String(32))
    """Who works on it: only the holder may write the answer back."""
    locked_until: Mapped[datetime]
    """When a request that never answered, because its process died, may be repeated."""
    status: Mapped[int | None]
    headers: Mapped[dict[str, Any] | None]
    body: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The answer's JSON, deflated."""
    created_at: Mapped[datetime] = mapped_column(index=True)
