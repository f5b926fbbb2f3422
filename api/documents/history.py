"""What happened to a model so far? Its studies, trials, profiles and checks, newest first."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, undefer

from api.documents.checks import Wanted, find_checks
from api.storage.tables import DocumentKind, StoredDocument, Study, StudyTrial
from profiles.timings import Profile
from tuner.regressions.check import Check

MOST_STUDIES, MOST_TRIALS, MOST_PROFILES, MOST_CHECKS = 300, 300, 40, 200


@dataclass(frozen=True)
class Kept:
    """A stored document, read."""

    row: StoredDocument
    document: Any


@dataclass(frozen=True)
class History:
    """All that is known of a model, each list newest first and of limited length."""

    studies: list[Study]
    trials: list[StudyTrial]
    profiles: list[Kept]
    checks: list[Kept]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of it."""
        return not (self.studies or self.trials or self.profiles or self.checks)


def read_history(session: Session, model: str) -> History:
    """The history of the model of that name."""
    studies = select(Study).where(Study.model == model).options(undefer(Study.request))
    trials = (
        select(StudyTrial)
        .join(Study, Study.id == StudyTrial.study_id)
        .where(Study.model == model, StudyTrial.ended_at.is_not(None))
        .order_by(StudyTrial.ended_at.desc())
        .limit(MOST_TRIALS)
    )
    return History(
        studies=list(session.scalars(studies.order_by(Study.id.desc()).limit(MOST_STUDIES))),
        trials=list(session.scalars(trials)),
        profiles=_profiles(session, model),
        checks=_checks(session, model),
    )


def _profiles(session: Session, model: str) -> list[Kept]:
    """Those of the model; the name that lists show begins with it, so that few are looked into."""
    named = StoredDocument.document["description"]["name"].as_string() == model
    query = (
        select(StoredDocument)
        .where(StoredDocument.kind == DocumentKind.PROFILE)
        .where(StoredDocument.name.startswith(f"{model} on "[:200], autoescape=True), named)
        .order_by(StoredDocument.created_at.desc(), StoredDocument.id)
        .options(undefer(StoredDocument.document))
        .limit(MOST_PROFILES)
    )
    return [
        Kept(row, Profile.from_value(row.document, name="the stored profile"))
        for row in session.scalars(query)
    ]


def _checks(session: Session, model: str) -> list[Kept]:
    found = find_checks(session, Wanted(model=model), limit=MOST_CHECKS)
    return [Kept(row, Check.from_value(row.document, name="the stored check")) for row in found]
