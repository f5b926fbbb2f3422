"""What does a service keep of a checked model, for its history and as a baseline?"""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from profiles.document import Document, Name
from profiles.timings import Profile
from tuner.regressions.answer import ModelAnswer
from tuner.regressions.records import Fingerprint, ModelRecord, Outcome

MOST_CHANGES = 500
MOST_TEXT = 200_000


def _bounded(answer: ModelAnswer) -> ModelAnswer:
    if len(answer.changes) > MOST_CHANGES:
        raise ValueError(f"{len(answer.changes)} changes are more than the {MOST_CHANGES} that are kept")
    text = len(answer.model_dump_json())
    if text > MOST_TEXT:
        raise ValueError(f"an answer of {text:,} characters is longer than the {MOST_TEXT:,} that are kept")
    if not 1 <= len(answer.name) <= 200:
        raise ValueError("the name has 1 to 200 characters")
    if answer.links:
        raise ValueError("links are of who asks, and are not kept: leave them out")
    return answer


class Check(Document):
    """A model of a repository, checked at a revision: the verdict, and what a later check compares with.

    The profile is a document of its own, under `answer.profile_id`.
    """

    kind_name = "check"

    project: Name
    """The repository; two may call their models alike."""
    branch: Name | None = None
    revision: Name | None = None
    url: Annotated[str, Field(max_length=500, pattern="^https?://")] | None = None
    """The job that checked it."""
    study: Annotated[str, Field(pattern="^[0-9a-z]{26}$")] | None = None
    """The study with the plan of a model that is not as it was."""
    checked_at: AwareDatetime
    accepted: bool
    """Whether it is what later checks are compared with."""
    answer: Annotated[ModelAnswer, AfterValidator(_bounded)]
    fingerprint_of_profile: Fingerprint | None = None
    """Of all that the profile depends on; None where nothing could be measured."""
    question: dict[Name, str] = Field(default_factory=dict)
    outcome: Outcome | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        parts = (self.fingerprint_of_profile, self.outcome, self.answer.profile_id)
        missing = sum(part is None for part in parts)
        if missing not in {0, len(parts)} or (missing and self.accepted):
            raise ValueError(
                "a check has a fingerprint, an outcome and a profile; one that could not be measured "
                "has none of them, and is not accepted"
            )
        return self

    def record(self, profile: Profile) -> ModelRecord | None:
        """What a baseline would keep of it, with the profile from beside it."""
        if self.fingerprint_of_profile is None or self.outcome is None:
            return None
        return ModelRecord(
            name=self.answer.name,
            fingerprint=self.fingerprint_of_profile,
            question=self.question,
            profile=profile,
            outcome=self.outcome,
        )


def check_of(
    answer: ModelAnswer, record: ModelRecord | None, *, accepted: bool, where: Mapping[str, Any]
) -> Check:
    """What is to be kept of an answer; `where` has project, branch, revision, url, study, checked_at."""
    kept = answer.model_copy(update={"changes": answer.changes[:MOST_CHANGES], "links": {}})
    if record is None:
        return Check(**where, accepted=False, answer=kept)
    return Check(
        **where,
        accepted=accepted,
        answer=kept,
        fingerprint_of_profile=record.fingerprint,
        question=record.question,
        outcome=record.outcome,
    )
