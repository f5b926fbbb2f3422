"""Can a request be asked at all? Its documents are there, its options agree, and something can be searched.

Nothing is evaluated, so this takes milliseconds where the search takes a second.
"""

from dataclasses import dataclass
from typing import Any

from profiles.calibration import Calibration, CalibrationSet
from profiles.timings import Profile
from tuner.compression import read_compressions
from tuner.error_bars import calibrated_inputs, check_calibration, find_set
from tuner.evaluation import Evaluator
from tuner.inputs import Library, PlanInputs, gather
from tuner.request import PlanRequest
from tuner.search import Search
from tuner.why import read_constraints


@dataclass(frozen=True)
class Posed:
    """A request that can be asked, ready to be searched."""

    constraints: dict[str, Any] | None
    """Of its `why`."""
    inputs: PlanInputs
    calibrated: CalibrationSet | None
    """What the calibration learnt of this model and cluster."""
    search: Search


def pose(
    request: PlanRequest,
    library: Library,
    *,
    profile: Profile | None = None,
    calibration: Calibration | None = None,
) -> Posed:
    """The request with one compression, ready to be searched; raises as `tuner.planning.answer` does."""
    constraints = read_constraints(request.why) if request.why else None
    inputs = gather(request, library, profile=profile)
    check_calibration(request, calibration)
    calibrated = find_set(calibration, inputs.cluster, inputs.description.name) if calibration else None
    evaluator = Evaluator(calibrated_inputs(inputs, calibrated) if calibrated else inputs)
    return Posed(constraints, inputs, calibrated, Search(evaluator))


def check(
    request: PlanRequest,
    library: Library,
    *,
    profile: Profile | None = None,
    calibration: Calibration | None = None,
) -> PlanInputs:
    """What is asked about, where it can be asked; raises as `tuner.planning.answer` does."""
    plain = (
        request.model_copy(update={"compression": "none"})
        if read_compressions(request.compression)
        else request
    )
    return pose(plain, library, profile=profile, calibration=calibration).inputs
