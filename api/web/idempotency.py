"""Was this request made before? A client that hears nothing can repeat it with the same Idempotency-Key.

A reservation is written before the work and holds for LEASE; what is made and its answer are committed
together, and only by the holder of the reservation. A process killed in between leaves neither.
"""

import json
import secrets
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar

from fastapi import Header
from sqlalchemy import delete, select, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from api.access import audit
from api.service import Service
from api.storage.tables import IdempotencyKey
from api.web.deadline import current_deadline
from api.web.problems import ConflictProblem, InvalidProblem

LEASE = timedelta(seconds=60)
"""At least; longer where a request may take longer to be answered."""
THERE = 200
"""The status of an answer about what was there before."""
_PURGED_AT_ONCE = 20

Made = TypeVar("Made")

KeyHeader = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        pattern=r"^[\x20-\x7e]+$",
        description="Repeating a request with the same key and body gives the first answer again.",
    ),
]


@dataclass(frozen=True)
class Answer:
    """An answer that can be kept and given again."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Once:
    """A request that must have its effect once: `key` of `owner`, None when the client sent none."""

    service: Service
    owner: str
    key: str | None
    fingerprint: str
    longer_s: float = 0.0
    """So much longer than others its answer may take."""

    def answer(self, work: Callable[[], Made], store: Callable[[Session, Made], Answer]) -> Answer:
        """Work outside a transaction, store what was made and the answer in one; or give the kept answer.

        Raises InvalidProblem when the key came with another request, ConflictProblem while the first works.
        """
        if self.key is None:
            made = work()
            with self.service.database.writing() as session:
                return self._record(session, store(session, made))
        reserved = self._reserve(self.key)
        if isinstance(reserved, Answer):
            return reserved
        try:
            made = work()
            with self.service.database.writing() as session:
                answer = self._record(session, store(session, made))
                self._keep(session, reserved, answer)
        except BaseException:
            self._release(reserved)
            raise
        return answer

    def _record(self, session: Session, answer: Answer) -> Answer:
        """Note who made it, unless it was there; raises TimeoutProblem when it is too late to store it."""
        current_deadline().begin_to_store()
        if answer.status != THERE:
            audit.record(session, answer.body["id"], now=self.service.clock(), status=answer.status)
        return answer

    def _reserve(self, key: str) -> str | Answer:
        try:
            return self._reserve_or_replay(key)
        except IntegrityError:
            # Another process inserted the key between our look and our insert: now it is there to be seen.
            return self._reserve_or_replay(key)

    def _reserve_or_replay(self, key: str) -> str | Answer:
        now = self.service.clock()
        with self.service.database.writing() as session:
            _purge(session, now - timedelta(hours=self.service.settings.idempotency_hours))
            row = session.get(IdempotencyKey, (self.owner, key), with_for_update=True)
            if row is None:
                row = IdempotencyKey(owner=self.owner, key=key, created_at=now)
                session.add(row)
            elif row.fingerprint != self.fingerprint:
                raise InvalidProblem("this Idempotency-Key came with another request before: use a new key")
            elif row.status is not None:
                return _kept(row)
            elif row.locked_until > now:
                raise ConflictProblem(
                    "a request with this Idempotency-Key is being answered: try again",
                    headers={"Retry-After": "1"},
                )
            # What may take longer to answer is not begun again meanwhile.
            longest = timedelta(seconds=self.service.settings.request_seconds + self.longer_s)
            row.fingerprint, row.token, row.locked_until = (
                self.fingerprint,
                secrets.token_hex(16),
                now + max(LEASE, longest),
            )
            return row.token

    def _keep(self, session: Session, token: str, answer: Answer) -> None:
        kept = session.scalar(
            update(IdempotencyKey)
            .where(*self._held(token))
            .values(
                status=answer.status,
                headers=answer.headers,
                body=zlib.compress(json.dumps(answer.body).encode(), level=3),
            )
            .returning(IdempotencyKey.key)
        )
        if kept is None:
            raise ConflictProblem(
                "answering took so long that a repetition of the request took over: try again",
                headers={"Retry-After": "1"},
            )

    def _release(self, token: str) -> None:
        with self.service.database.writing() as session:
            session.execute(delete(IdempotencyKey).where(*self._held(token)))

    def _held(self, token: str) -> tuple[Any, ...]:
        return (
            IdempotencyKey.owner == self.owner,
            IdempotencyKey.key == self.key,
            IdempotencyKey.token == token,
            IdempotencyKey.status.is_(None),
        )


def _kept(row: IdempotencyKey) -> Answer:
    body = json.loads(zlib.decompress(row.body or b""))
    headers = {**(row.headers or {}), "Idempotent-Replayed": "true"}
    return Answer(status=row.status or 200, body=body, headers=headers)


def _purge(session: Session, before: datetime) -> None:
    """Forget a few expired keys; locked ones are another process's to forget."""
    expired = (
        select(IdempotencyKey.owner, IdempotencyKey.key)
        .where(IdempotencyKey.created_at < before)
        .limit(_PURGED_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    key = tuple_(IdempotencyKey.owner, IdempotencyKey.key)
    session.execute(
        delete(IdempotencyKey).where(key.in_(expired)).execution_options(synchronize_session=False)
    )
