"""What do measurements teach?"""

from collections.abc import Sequence

from api.computing.result import Result
from profiles import library
from profiles.measurement import Measurements
from profiles.timings import Profile
from tuner.calibration import calibrate


def fit(measurements: Sequence[str], profiles: Sequence[str]) -> Result:
    """The calibration that these documents give; raises CalibrationError where nothing can be told."""
    fitted = calibrate(
        [Measurements.model_validate_json(text) for text in measurements],
        library,
        profiles=[Profile.model_validate_json(text) for text in profiles],
    )
    return Result(fitted.model_dump_json().encode())
