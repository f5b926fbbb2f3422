"""How does a question travel? As texts, which the process that computes reads again."""

import json
from functools import lru_cache
from typing import TypedDict

from pydantic import TypeAdapter

from profiles import library
from profiles.calibration import Calibration
from profiles.timings import Profile
from tuner.error_bars import calibrated_request
from tuner.request import PlanRequest
from tuner.trials import Trial

_KEPT = 8
"""Documents that a process keeps read: studies of one model come one after the other."""

TRIALS: TypeAdapter[tuple[Trial, ...]] = TypeAdapter(tuple[Trial, ...])


class Asked(TypedDict):
    """A request, and the documents that it does not name itself, as JSON."""

    request: str
    profile: str | None
    calibration: str | None


def as_texts(request: PlanRequest, profile: Profile | None, calibration: Calibration | None) -> Asked:
    """The texts of a question."""
    return Asked(
        request=request.model_dump_json(),
        profile=None if profile is None else profile.model_dump_json(),
        calibration=None if calibration is None else calibration.model_dump_json(),
    )


def read_asked(asked: Asked) -> tuple[PlanRequest, Profile | None, Calibration | None]:
    """The question of texts that `as_texts` made."""
    profile, calibration = asked["profile"], asked["calibration"]
    return (
        # As a body is read: the schema takes lists for tuples there.
        PlanRequest.model_validate(json.loads(asked["request"])),
        None if profile is None else _profile(profile),
        None if calibration is None else _calibration(calibration),
    )


def read_calibrated(asked: Asked) -> tuple[PlanRequest, Profile | None]:
    """The request, of the cluster as its calibration has it, and its profile."""
    request, profile, calibration = read_asked(asked)
    if calibration is not None:
        request = calibrated_request(request, calibration, library, profile=profile)
    return request, profile


@lru_cache(maxsize=_KEPT)
def _profile(text: str) -> Profile:
    return Profile.model_validate_json(text)


@lru_cache(maxsize=_KEPT)
def _calibration(text: str) -> Calibration:
    return Calibration.model_validate_json(text)
