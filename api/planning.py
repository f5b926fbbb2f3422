"""How is a request over HTTP answered? What it names in the database is fetched, the tuner does the rest."""

from collections.abc import Sequence
from typing import Any

from api.computing import plans
from api.computing.asked import TRIALS
from api.computing.result import Result
from api.documents.calibrations import find_calibration
from api.operations import metrics
from api.service import Service
from api.storage.database import Database
from api.studies.needs import is_unknown_architecture
from api.studies.questions import Question, named_profile, stored_profile, texts_of
from api.web.problems import InvalidProblem
from profiles.timings import Profile
from tuner.errors import UnsupportedModelError
from tuner.request import PlanRequest
from tuner.trials import Trial

ASK_A_WORKER = (
    "Have a worker measure it with POST /v1/studies or /v1/profile-jobs; or run `chimera profile` where the "
    'model can be built, post the profile to /v1/profiles, and name it here: "model": {"profile": id}'
)


def plan(request: PlanRequest, service: Service) -> Result:
    """The plan with the seconds it took. Raises TunerError, DocumentError or a Problem."""
    profile = find_profile(request, service.database)
    calibration = find_calibration(request.calibration, service.database)
    try:
        return plan_question(Question(request, profile, calibration), service)
    except UnsupportedModelError as error:
        if not is_unknown_architecture(request):
            raise
        raise InvalidProblem(f"{str(error).rstrip('. ')}. {ASK_A_WORKER}") from None


def plan_question(question: Question, service: Service, *, trials: Sequence[Trial] = ()) -> Result:
    """The plan of what is asked, corrected by its trials; raises TunerError, DocumentError or a Problem."""
    rows = TRIALS.dump_json(tuple(trials)).decode() if trials else None
    with metrics.timed_plan() as timed:
        found = service.computing.call(plans.plan, texts_of(question), rows)
        timed.outcome = found.facts["outcome"]
    return found


def plan_document(plan: Result) -> dict[str, Any]:
    """The plan as it is stored: all that `chimera plan --json` prints but for the time it took."""
    document: dict[str, Any] = plan.document()
    del document["search_s"]
    return document


def find_profile(request: PlanRequest, database: Database) -> Profile | None:
    """The stored profile that a request names; raises InvalidProblem where there is none."""
    with database.reading() as session:
        return stored_profile(session, named_profile(request))
