"""Which keys are there, and what does each allow? A key is shown once and kept as its SHA-256."""

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from api.storage.identifiers import new_identifier
from api.storage.tables import ApiKey
from api.web.paging import newest_rows, page
from api.web.problems import InvalidProblem, NotFoundProblem

LONGEST_NAME = 200
_SECRET = re.compile(r"[\x21-\x7e]{32,200}")


class Scope(StrEnum):
    """What a key allows."""

    READ = "read"
    """Look at everything but keys."""
    SUBMIT = "submit"
    """Make studies, documents and jobs, stop and delete one's own; includes read."""
    WORK = "work"
    """Claim jobs and write their results: what a worker needs, and no more."""
    ADMIN = "admin"
    """Everything, also what belongs to others, and keys."""


_INCLUDED = {
    Scope.READ: frozenset({Scope.READ}),
    Scope.SUBMIT: frozenset({Scope.READ, Scope.SUBMIT}),
    Scope.WORK: frozenset({Scope.WORK}),
    Scope.ADMIN: frozenset(Scope),
}


def granted(scopes: Iterable[str]) -> frozenset[Scope]:
    """Everything that scopes allow, with what they include."""
    return frozenset().union(*(_INCLUDED[Scope(scope)] for scope in scopes))


def create_key(
    session: Session,
    *,
    name: str,
    owner: str,
    scopes: Iterable[Scope],
    created_by: str,
    now: datetime,
    secret: str | None = None,
) -> tuple[ApiKey, str]:
    """Make a key, and return the secret that is shown once; raises InvalidProblem for what is no name."""
    secret = secret or f"chimera_{secrets.token_urlsafe(32)}"
    asked = set(scopes)
    wanted = [scope for scope in Scope if scope in asked]
    if not wanted:
        raise InvalidProblem(f"scopes: name at least one of {', '.join(Scope)}")
    row = ApiKey(
        id=new_identifier(now),
        name=_one_line("name", name),
        owner=_one_line("owner", owner),
        scopes=[scope.value for scope in wanted],
        for_people=wanted != [Scope.WORK],
        digest=digest(secret),
        created_by=created_by,
        created_at=now,
    )
    session.add(row)
    session.flush()
    return row, secret


def digest(secret: str) -> str:
    """SHA-256: secrets are random, so nothing slower is needed."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def check_secret(secret: str, *, where: str) -> str:
    """A secret that somebody chose; raises InvalidProblem when it could be guessed or not be sent."""
    if not _SECRET.fullmatch(secret):
        raise InvalidProblem(
            f"{where} holds {len(secret):,} characters: a key is one line of 32 to 200 visible ASCII "
            "characters, such as the output of `openssl rand -hex 32`"
        )
    return secret


def find_key(session: Session, secret: str) -> ApiKey | None:
    """The key with that secret, also a revoked one."""
    return session.scalar(select(ApiKey).where(ApiKey.digest == digest(secret)))


def read_key(session: Session, identifier: str) -> ApiKey:
    """The key with that id; raises NotFoundProblem."""
    row = session.get(ApiKey, identifier)
    if row is None:
        raise NotFoundProblem(
            f"there is no key {identifier[:80]!r}; /v1/keys and `chimera key list` have all"
        )
    return row


def list_keys(session: Session, *, cursor: str | None, limit: int) -> dict[str, Any]:
    """A page of keys, the newest first, revoked ones too."""
    found, following = newest_rows(session, select(ApiKey), ApiKey.id, cursor=cursor, limit=limit)
    return page([key_entry(row) for row in found], following)


def revoke_key(session: Session, identifier: str, *, now: datetime) -> ApiKey:
    """End a key; one that was ended before stays as it is. Raises NotFoundProblem."""
    row = read_key(session, identifier)
    row.revoked_at = row.revoked_at or now
    return row


def people_have_keys(session: Session) -> bool:
    """Whether a key for more than work was ever made: from then on nobody is let in without one."""
    return session.scalar(select(ApiKey.id).where(ApiKey.for_people).limit(1)) is not None


def key_entry(row: ApiKey) -> dict[str, Any]:
    """A key as JSON, without its secret, which nobody has any more."""
    moments = {"created_at": row.created_at, "last_used_at": row.last_used_at, "revoked_at": row.revoked_at}
    return {
        "id": row.id,
        "name": row.name,
        "owner": row.owner,
        "scopes": row.scopes,
        "created_by": row.created_by,
        **{name: moment.isoformat() if moment else None for name, moment in moments.items()},
    }


def _one_line(field: str, text: str) -> str:
    if not 1 <= len(text) <= LONGEST_NAME or not text.isprintable() or text != text.strip():
        raise InvalidProblem(f"{field}: must be one line of 1 to {LONGEST_NAME} characters")
    return text
