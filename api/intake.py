"""Is what people ask of workers, and what workers report, sound? Checked before anything is written."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from api import documents
from api.problems import InvalidProblem
from api.queue import Ending, NewJob
from api.tables import DocumentKind, JobRow
from profiles import library
from tuner.assignments import ProfileJobRequest, ProfileModel, ProfileModelResult, read_piece, read_result
from tuner.messages import Done, Finish, JobKind
from tuner.request import InlineModel


def read_profile_job(value: Any, *, caller: str) -> NewJob:
    """Check a parsed body of POST /v1/profile-jobs; raises RequestError, DocumentError or InvalidProblem."""
    asked = read_piece(ProfileJobRequest, value, name="the request")
    if isinstance(asked.model, InlineModel):
        if asked.model.config is None:
            raise InvalidProblem("model: a stored profile is measured already; give a preset or a config")
        if asked.sequence_length is None:
            raise InvalidProblem("sequence_length: is required with a config.json")
    else:
        library.load_model_preset(asked.model)
    if asked.accelerator is not None:
        library.load_accelerator(asked.accelerator)
    return NewJob(
        kind=JobKind.PROFILE_MODEL,
        payload=asked.model_dump(mode="json", include=set(ProfileModel.model_fields), exclude_none=True),
        created_by=caller,
        pool=asked.pool,
        accelerator=asked.accelerator,
        priority=asked.priority,
        max_attempts=asked.max_attempts,
    )


@dataclass(frozen=True)
class Report:
    """What a worker reports at the end, checked; a profile among it becomes a document of its own."""

    ending: Ending
    profile: ProfileModelResult | None = None


def read_report(kind: JobKind, message: Finish) -> Report:
    """Check the result by the kind of the job, outside any transaction; raises RequestError."""
    contents = [(attachment, attachment.deflated()) for attachment in message.attachments]
    if not isinstance(message.outcome, Done):
        return Report(Ending(message.token, message.outcome, attachments=contents))
    result = read_result(kind, message.outcome.result)
    if isinstance(result, ProfileModelResult):
        kept = {"profile": result.profile.fingerprint()}
        return Report(Ending(message.token, message.outcome, kept, contents), result)
    kept = result.model_dump(mode="json", exclude_none=True)
    return Report(Ending(message.token, message.outcome, kept, contents))


def keep_profile(session: Session, row: JobRow, result: ProfileModelResult, *, now: datetime) -> None:
    """Store the profile that a job measured, as its owner's."""
    documents.store_document(
        session, result.profile, kind=DocumentKind.PROFILE, caller=row.created_by, now=now, base=""
    )
