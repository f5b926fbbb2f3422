"""What is the plan of a question?"""

from time import perf_counter

from api.computing.asked import TRIALS, Asked, read_asked
from api.computing.result import Result, as_bytes
from profiles import library
from tuner.planning import answer


def plan(asked: Asked, trials: str | None = None) -> Result:
    """The plan with the seconds it took, as POST /v1/plans answers; raises TunerError or DocumentError."""
    request, profile, calibration = read_asked(asked)
    tried = () if trials is None else TRIALS.validate_json(trials)
    began = perf_counter()
    found = answer(request, library, profile=profile, calibration=calibration, trials=tried)
    search_s = perf_counter() - began
    outcome = "nothing_fits" if found.chosen is None else "chosen"
    content = as_bytes(found.model_dump(mode="json") | {"search_s": search_s})
    return Result(content, {"outcome": outcome, "search_s": search_s})
