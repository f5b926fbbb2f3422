"""What is stored about who is there and what they did? Sessions of browsers, and the audit log."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from api.storage.columns import Table


class BrowserSession(Table):
    """A browser that showed a key, by the SHA-256 of its cookie. It may do what that key may."""

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime] = mapped_column(index=True)


class AuditEntry(Table):
    """Something that somebody changed, or was not allowed to. Ids rise with time; nothing here is secret."""

    __tablename__ = "audit"

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    at: Mapped[datetime] = mapped_column(index=True)
    owner: Mapped[str] = mapped_column(String(200), index=True)
    key_id: Mapped[str | None] = mapped_column(String(26))
    """None for who had no key."""
    action: Mapped[str] = mapped_column(String(60))
    """The operation, as OpenAPI names it."""
    target: Mapped[str | None] = mapped_column(String(100), index=True)
    """What was made, changed or ended."""
    status: Mapped[int]
    """Of the answer: below 400 it was done."""
    address: Mapped[str] = mapped_column(String(100))
    request_id: Mapped[str | None] = mapped_column(String(64))
    """As the log has it."""
