"""What does `chimera ci` say of each model?"""

from typing import Annotated, Literal

from pydantic import Field

from profiles.document import FIRST_FAULT
from tuner.plan_notes import PlanPart

Status = Literal["ok", "regressed", "not_comparable", "not_measurable", "new"]
Kind = Literal[
    "slower_layer", "more_memory", "no_longer_fits", "lower_throughput", "other_configuration",
    "vocabulary", "attention", "shape", "layers", "software", "device", "question", "noise", "error",
    "baseline",
]  # fmt: skip

Source = Literal["measured", "estimated", "document", "baseline"]


class Change(PlanPart):
    """One thing that is not as in the baseline."""

    kind: Kind
    what: str
    """The layer type, option or part that it is about."""
    micro_batch_size: int | None = None
    before: float | int | str | None = None
    after: float | int | str | None = None
    relative: float | None = None
    """after / before - 1"""
    allowed: float | None = None
    """How far `relative` may go: the threshold, or more where the measurements are noisy."""
    regression: bool
    """False where it is only told."""
    message: str


def regressed(
    kind: Kind,
    what: str,
    *,
    before: float,
    after: float,
    allowed: float,
    message: str,
    micro_batch_size: int | None = None,
) -> Change:
    """A number that is further off than is allowed."""
    return Change(
        kind=kind,
        what=what,
        micro_batch_size=micro_batch_size,
        before=before,
        after=after,
        relative=after / before - 1 if before else None,
        allowed=allowed,
        regression=True,
        message=f"{message}, and {allowed:.0%} is allowed",
    )


class ModelAnswer(PlanPart):
    """A model against its baseline."""

    name: str
    status: Status
    changes: Annotated[tuple[Change, ...], FIRST_FAULT] = ()
    cause: str | None = None
    """What alone changed, where that is known: the model, or a version such as torch's."""
    profile: Source | None = None
    """Where its layer times are from; `baseline` where nothing that they depend on changed."""
    profile_id: str | None = None
    """The address of the profile's content, under which a service keeps it."""
    configuration: str | None = None
    throughput_samples_per_s: float | None = None
    peak_memory_bytes: int | None = None
    links: dict[str, str] = Field(default_factory=dict)
    """Addresses in the service: `report`, `profile` and `history`."""

    @property
    def regressions(self) -> tuple[Change, ...]:
        """The changes for which it failed."""
        return tuple(change for change in self.changes if change.regression)


class CiAnswer(PlanPart):
    """All models of a manifest."""

    schema_version: Literal[1] = 1
    models: tuple[ModelAnswer, ...]
    baseline: str
    accepted: bool = False
    """Whether the baseline was written anew."""
    problems: tuple[str, ...] = ()
    """What the service could not do; none changes a verdict."""

    def count(self, status: Status) -> int:
        """How many models have that status."""
        return sum(model.status == status for model in self.models)
