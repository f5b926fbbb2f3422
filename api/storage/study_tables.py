"""What is stored about studies? Questions with their answers, their trials, and what happened to them."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, UniqueConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from api.storage.columns import Table, choice
from tuner.trials import TrialStatus


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


class Study(Table):
    """A question and its answer. Ids rise with time, so the newest are the last ones."""

    __tablename__ = "studies"
    __table_args__ = (Index(None, "status", "id"), Index(None, "model", "id"))

    id: Mapped[str] = mapped_column(String(26), primary_key=True)
    name: Mapped[str | None] = mapped_column(String(200))
    created_by: Mapped[str] = mapped_column(String(200))
    status: Mapped[StudyStatus] = mapped_column(choice(StudyStatus))
    waiting_for: Mapped[str | None] = mapped_column(String(500))
    """Unused: what a study waits for is told from its jobs when it is asked."""
    model: Mapped[str] = mapped_column(String(200))
    cluster: Mapped[str] = mapped_column(String(200))
    devices: Mapped[int] = mapped_column(BigInteger)
    mini_batch_size: Mapped[int] = mapped_column(BigInteger)
    answer: Mapped[dict[str, Any] | None]
    """The chosen configuration in a few keys, for lists; None when nothing fits."""
    request: Mapped[dict[str, Any]] = mapped_column(deferred=True)
    """The request as it came in, without name and refine."""
    plan: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    refine: Mapped[dict[str, Any] | None]
    """What it may spend on trials (`tuner.refine_request`); None where none were asked for."""
    outcome: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    """What its trials say so far (`api.outcomes`)."""
    error: Mapped[str | None] = mapped_column(String(4000))
    """Why it failed."""
    profile_job: Mapped[str | None] = mapped_column(String(26), index=True)
    """Who measures its model: a job of its own or another's."""
    profile: Mapped[str | None] = mapped_column(String(64))
    """The stored profile that was measured for it."""
    links_job: Mapped[str | None] = mapped_column(String(26), index=True)
    links: Mapped[dict[str, Any] | None] = mapped_column(deferred=True)
    """The measured link inside a node; empty where none could be measured."""
    turn: Mapped[str | None] = mapped_column(String(32))
    """Token of the process that moves it on (`api.turns`)."""
    turn_until: Mapped[datetime | None]
    due: Mapped[bool] = mapped_column(server_default=false())
    """Whether something happened since the last turn began."""
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class StudyTrial(Table):
    """A configuration that was given to the workers for a study, and what came back."""

    __tablename__ = "study_trials"
    # No point of the search is tried twice by the same attempt, whoever asks.
    __table_args__ = (UniqueConstraint("study_id", "point", "attempt"),)

    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    """Counted from 1."""
    point: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the configuration."""
    attempt: Mapped[int]
    """Counted from 1: a trial that ended without an answer may be made again."""
    job_id: Mapped[str] = mapped_column(String(26), index=True)
    status: Mapped[TrialStatus] = mapped_column(choice(TrialStatus))
    """Of trials that have not ended the job knows better."""
    configuration: Mapped[dict[str, Any]]
    proposal: Mapped[dict[str, Any]]
    """Why it was tried: predicted_s, expected_s, low_s, high_s, by and reason."""
    result: Mapped[dict[str, Any] | None]
    """What the worker told, or {"message": why there is nothing}."""
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]


class StudyEvent(Table):
    """Something that happened to a study, numbered from 1; only who has locked the study adds rows."""

    __tablename__ = "study_events"

    study_id: Mapped[str] = mapped_column(ForeignKey("studies.id", ondelete="CASCADE"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    event: Mapped[str] = mapped_column(String(40))
    data: Mapped[dict[str, Any]]
    at: Mapped[datetime]
