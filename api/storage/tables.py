"""What is stored? The tables, the same on SQLite and Postgres."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from api.storage.access_tables import AuditEntry, BrowserSession
from api.storage.columns import Table, choice
from api.storage.job_tables import ApiKey, Event, JobAttachment, JobEvent, JobRow, WorkerRow
from api.storage.study_tables import FINAL, Study, StudyEvent, StudyStatus, StudyTrial

__all__ = [
    "FINAL",
    "ApiKey",
    "AuditEntry",
    "BrowserSession",
    "DocumentKind",
    "Event",
    "IdempotencyKey",
    "JobAttachment",
    "JobEvent",
    "JobRow",
    "StoredDocument",
    "Study",
    "StudyEvent",
    "StudyStatus",
    "StudyTrial",
    "Table",
    "WorkerRow",
]


class DocumentKind(StrEnum):
    """What a stored document describes; the value is its place under /v1."""

    PROFILE = "profiles"
    CLUSTER = "clusters"
    MEASUREMENTS = "measurements"
    CALIBRATION = "calibrations"
    CHECK = "checks"


class StoredDocument(Table):
    """A profile, cluster or set of measurements, found by the SHA-256 of its canonical text."""

    __tablename__ = "documents"
    __table_args__ = (Index(None, "kind", "name", "created_at"),)

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
