"""Is what people ask of workers, and what workers report, sound? Checked before anything is written."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from api.documents import store as documents
from api.jobs.queue import Ending, NewJob
from api.storage.tables import DocumentKind, JobRow
from api.web.problems import InvalidProblem
from profiles import library
from profiles.document import canonical_json
from tuner.assignments import (
    DEFAULT_ATTENTION,
    DEFAULT_PRECISION,
    ProfileJobRequest,
    ProfileLinks,
    ProfileModel,
    ProfileModelResult,
    read_piece,
    read_result,
)
from tuner.messages import Done, Finish, JobKind
from tuner.request import InlineModel

PROCESSOR = "cpu"
"""The data sheet of a processor: only between processes are links measured so far."""


def read_profile_job(value: Any, *, caller: str) -> NewJob:
    """Check a parsed body of POST /v1/profile-jobs; raises RequestError, DocumentError or InvalidProblem."""
    return profile_job(read_piece(ProfileJobRequest, value, name="the request"), caller=caller)


def profile_job(asked: ProfileJobRequest, *, caller: str) -> NewJob:
    """The job that measures what was asked for; raises DocumentError or InvalidProblem."""
    described = _described(asked)
    if asked.accelerator is not None:
        library.load_accelerator(asked.accelerator)
    return NewJob(
        kind=JobKind.PROFILE_MODEL,
        payload=asked.model_dump(
            mode="json",
            include=set(ProfileModel.model_fields) - (set() if asked.processes > 1 else {"processes"}),
            exclude_none=True,
        ),
        created_by=caller,
        pool=asked.pool,
        devices=asked.processes,
        accelerator=asked.accelerator,
        priority=asked.priority,
        max_attempts=asked.max_attempts,
        fingerprint=_fingerprint(asked, described),
        subject=_digest(described | {"pool": asked.pool}),
    )


def links_job(*, pool: str, caller: str) -> NewJob:
    """The job that measures the link between two processes of one host."""
    asked = ProfileLinks()
    return NewJob(
        kind=JobKind.PROFILE_LINKS,
        payload=asked.model_dump(mode="json", exclude_none=True),
        created_by=caller,
        pool=pool,
        devices=asked.devices,
        accelerator=PROCESSOR,
        fingerprint=_digest({"links": asked.devices, "accelerator": PROCESSOR, "pool": pool}),
    )


def _described(asked: ProfileJobRequest) -> dict[str, Any]:
    """Model and shape, the same for a preset and for its config.json; raises InvalidProblem."""
    if not isinstance(asked.model, InlineModel):
        preset = library.load_model_preset(asked.model)
        return {
            "config": preset.config,
            "sequence_length": asked.sequence_length or preset.sequence_length,
            "precision": asked.precision or preset.precision,
            "attention": asked.attention or preset.attention,
        }
    if asked.model.config is None:
        raise InvalidProblem("model: a stored profile is measured already; give a preset or a config")
    if asked.sequence_length is None:
        raise InvalidProblem("sequence_length: is required with a config.json")
    return {
        "config": asked.model.config,
        "sequence_length": asked.sequence_length,
        "precision": asked.precision or DEFAULT_PRECISION,
        "attention": asked.attention or DEFAULT_ATTENTION,
    }


def _fingerprint(asked: ProfileJobRequest, described: dict[str, Any]) -> str:
    """SHA-256 of what is measured, how and where."""
    question = described | {
        "micro_batch_sizes": sorted(set(asked.micro_batch_sizes)),
        "optimizer": asked.optimizer,
        "accelerator": asked.accelerator,
        "pool": asked.pool,
    }
    if asked.processes > 1:
        question["processes"] = asked.processes
    return _digest(question)


def _digest(question: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(question).encode()).hexdigest()


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
