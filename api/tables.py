"""What is stored? The tables, the same on SQLite and Postgres."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Enum,
    Index,
    LargeBinary,
    MetaData,
    String,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


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


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC: SQLite forgets the zone, so reading puts it back; a naive moment is refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Bring to UTC."""
        if value is not None and value.tzinfo is None:
            raise ValueError("a stored moment needs a time zone")
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Name the zone."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _choice(values: type[StrEnum]) -> Enum:
    """A checked text column: native enum types would need their own migrations on Postgres."""
    return Enum(
        values,
        native_enum=False,
        create_constraint=False,
        length=40,
        values_callable=lambda members: [member.value for member in members],
        validate_strings=True,
    )


class Table(DeclarativeBase):
    """Base of the tables; constraints get names, without which SQLite could not alter them later."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {datetime: UtcDateTime, dict[str, Any]: JSON(none_as_null=True)}  # noqa: RUF012


class Study(Table):
    """A question and its answer. Ids rise with time, so the newest are the last ones."""

    __tablename__ = "studies"
    __table_args__ = (Index(None, "status", "id"), Index(None, "model", "id"))

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    name: Mapped[str | None] = mapped_column(String(200))
    created_by: Mapped[str] = mapped_column(String(200))
    status: Mapped[StudyStatus] = mapped_column(_choice(StudyStatus))
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

    kind: Mapped[DocumentKind] = mapped_column(_choice(DocumentKind), primary_key=True)
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
