"""How is a request over HTTP answered? What it names in the database is fetched, the tuner does the rest."""

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from api.documents.calibrations import find_calibration
from api.operations import metrics
from api.storage.database import Database
from api.studies.needs import is_unknown_architecture
from api.studies.questions import Question, named_profile, stored_profile
from api.web.problems import InvalidProblem
from profiles import library
from profiles.timings import Profile
from tuner.errors import UnsupportedModelError
from tuner.plan import Plan
from tuner.planning import answer
from tuner.request import PlanRequest
from tuner.trials import Trial

ASK_A_WORKER = (
    "Have a worker measure it with POST /v1/studies or /v1/profile-jobs; or run `chimera profile` where the "
    'model can be built, post the profile to /v1/profiles, and name it here: "model": {"profile": id}'
)


def plan(request: PlanRequest, database: Database) -> tuple[Plan, float]:
    """The plan and the seconds it took. Raises TunerError, DocumentError or InvalidProblem."""
    profile = find_profile(request, database)
    calibration = find_calibration(request.calibration, database)
    start = perf_counter()
    try:
        found = plan_question(Question(request, profile, calibration))
    except UnsupportedModelError as error:
        if not is_unknown_architecture(request):
            raise
        raise InvalidProblem(f"{str(error).rstrip('. ')}. {ASK_A_WORKER}") from None
    return found, perf_counter() - start


def plan_question(question: Question, *, trials: Sequence[Trial] = ()) -> Plan:
    """The plan of what is asked, corrected by its trials; raises TunerError or DocumentError."""
    with metrics.timed_plan() as timed:
        found = answer(
            question.request,
            library,
            profile=question.profile,
            calibration=question.calibration,
            trials=trials,
        )
        timed.outcome = "nothing_fits" if found.chosen is None else "chosen"
    return found


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as JSON, as it is stored and as `chimera plan --json` prints it."""
    return plan.model_dump(mode="json")


def find_profile(request: PlanRequest, database: Database) -> Profile | None:
    """The stored profile that a request names; raises InvalidProblem where there is none."""
    with database.reading() as session:
        return stored_profile(session, named_profile(request))
