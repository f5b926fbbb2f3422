"""How does a browser stay signed in? A cookie stands for the key that it once showed; its SHA-256 is kept."""

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from api.access.keys import digest
from api.storage.identifiers import new_identifier
from api.storage.tables import ApiKey, BrowserSession

COOKIE = "chimera_session"


def begin_session(session: Session, key: ApiKey, *, now: datetime, hours: float) -> str:
    """Let a browser be the holder of `key` for so long; returns what its cookie says, once."""
    secret = secrets.token_urlsafe(32)
    session.add(
        BrowserSession(
            id=new_identifier(now),
            digest=digest(secret),
            key_id=key.id,
            created_at=now,
            expires_at=now + timedelta(hours=hours),
        )
    )
    return secret


def find_session(session: Session, secret: str, *, now: datetime) -> ApiKey | None:
    """The key that a cookie stands for; None once the session has ended, or the key was revoked."""
    return session.scalar(
        select(ApiKey)
        .join(BrowserSession, BrowserSession.key_id == ApiKey.id)
        .where(
            BrowserSession.digest == digest(secret),
            BrowserSession.expires_at > now,
            ApiKey.revoked_at.is_(None),
        )
    )


def end_session(session: Session, secret: str) -> None:
    """Let the cookie stand for nobody any more."""
    session.execute(delete(BrowserSession).where(BrowserSession.digest == digest(secret)))


def prune_sessions(session: Session, *, now: datetime) -> None:
    """Forget those that have ended."""
    session.execute(delete(BrowserSession).where(BrowserSession.expires_at < now))


def csrf_token(secret: str) -> str:
    """What a page of the session sends along. Who cannot read the page does not know it."""
    return hmac.new(secret.encode("utf-8", "surrogateescape"), b"csrf", hashlib.sha256).hexdigest()


def is_token_of(secret: str, token: str) -> bool:
    """Whether a page of this session sent it."""
    return hmac.compare_digest(csrf_token(secret).encode(), token.encode("utf-8", "surrogateescape"))
