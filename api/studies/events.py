"""What happened to a study, in which order? Numbered events, which a client may follow from any of them."""

from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from api.storage.tables import FINAL, Study, StudyEvent, StudyStatus

MOST_AT_ONCE = 500


def note(session: Session, study: Study, event: str, *, data: dict[str, Any], now: datetime) -> None:
    """Add an event; the caller has made or locked the study, so that numbers follow each other."""
    last = session.scalar(select(func.max(StudyEvent.number)).where(StudyEvent.study_id == study.id)) or 0
    session.add(StudyEvent(study_id=study.id, number=last + 1, event=event, data=data, at=now))
    session.flush()


def move(session: Session, study: Study, status: StudyStatus, *, now: datetime) -> None:
    """Let the study stand elsewhere, and say so; a final one is nobody's turn any more."""
    study.status, study.updated_at, study.waiting_for = status, now, None
    if status in FINAL:
        study.turn = study.turn_until = None
    data = {"status": status.value} | ({"error": study.error} if study.error else {})
    note(session, study, "status", data=data, now=now)


def read_events(session: Session, study_id: str, *, after: int) -> list[StudyEvent]:
    """The next events, the first first."""
    query = (
        select(StudyEvent)
        .where(StudyEvent.study_id == study_id, StudyEvent.number > after)
        .order_by(StudyEvent.number)
        .limit(MOST_AT_ONCE)
    )
    return list(session.scalars(query))
