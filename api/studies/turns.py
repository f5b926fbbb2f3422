"""Who moves a study on? One process at a time, for a while; whoever comes meanwhile leaves a note.

A turn is a token under a lease, as that of a job: work is done outside transactions, and what it gave is
written only while the token still stands in the row. A process that dies lets its turn run out, and the
next sweep takes the study on from what was written.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread

from sqlalchemy import or_, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from api.service import Service
from api.storage.tables import FINAL, Study

LENGTH = timedelta(seconds=10)
"""How long a turn outlives a process that died; one that works renews it."""


class LostTurnError(Exception):
    """The study was cancelled, or another process took it on: what was found is thrown away."""


@dataclass(frozen=True)
class Turn:
    """The right to move one study on."""

    study_id: str
    token: str


def take(service: Service, study_id: str) -> Turn | None:
    """The turn of a study, None where it is final, gone, or another's, who is told to look again."""
    now, turn = service.clock(), Turn(study_id, secrets.token_hex(16))
    with service.database.writing() as session:
        taken = session.scalar(
            update(Study)
            .where(Study.id == study_id, Study.status.not_in(FINAL))
            .where(or_(Study.turn.is_(None), Study.turn_until <= now))
            .values(turn=turn.token, turn_until=now + LENGTH, due=False)
            .returning(Study.id)
            .execution_options(synchronize_session=False)
        )
        if taken is None:
            session.execute(
                update(Study)
                .where(Study.id == study_id, Study.status.not_in(FINAL))
                .values(due=True)
                .execution_options(synchronize_session=False)
            )
    return turn if taken else None


def give_back(service: Service, turn: Turn) -> bool:
    """End the turn; False where something happened meanwhile, so that it goes on."""
    mine = (Study.id == turn.study_id, Study.turn == turn.token)
    with service.database.writing() as session:
        ended = session.scalar(
            update(Study)
            .where(*mine, Study.due.is_(False))
            .values(turn=None, turn_until=None)
            .returning(Study.id)
            .execution_options(synchronize_session=False)
        )
        if ended is not None:
            return True
        more = session.scalar(
            update(Study)
            .where(*mine)
            .values(due=False, turn_until=service.clock() + LENGTH)
            .returning(Study.id)
            .execution_options(synchronize_session=False)
        )
    return more is None


@contextmanager
def kept(service: Service, turn: Turn) -> Iterator[None]:
    """Renew a turn while the block goes on: a search on a busy machine may take longer than LENGTH."""
    over = Event()

    def renew() -> None:
        while not over.wait(LENGTH.total_seconds() / 3):
            with suppress(DBAPIError), service.database.writing() as session:
                session.execute(
                    update(Study)
                    .where(Study.id == turn.study_id, Study.turn == turn.token)
                    .values(turn_until=service.clock() + LENGTH)
                    .execution_options(synchronize_session=False)
                )

    thread = Thread(target=renew, name=f"turn-{turn.study_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def held(service: Service, turn: Turn) -> Iterator[tuple[Session, Study]]:
    """A transaction on a study whose turn it still is, the row locked; raises LostTurnError otherwise."""
    with service.database.writing() as session:
        study = lock(session, turn.study_id)
        if study is None or study.turn != turn.token or study.status in FINAL:
            raise LostTurnError(turn.study_id)
        study.turn_until = service.clock() + LENGTH
        yield session, study


def lock(session: Session, study_id: str) -> Study | None:
    """The study, changed by nobody else until the transaction ends; jobs that refer to it may be."""
    return session.get(Study, study_id, with_for_update={"key_share": True}, populate_existing=True)


def waiting(service: Service) -> list[str]:
    """Studies that are not final and nobody's turn, the oldest first."""
    with service.database.reading() as session:
        return list(
            session.scalars(
                select(Study.id)
                .where(Study.status.not_in(FINAL))
                .where(or_(Study.turn.is_(None), Study.turn_until <= service.clock()))
                .order_by(Study.id)
            )
        )
