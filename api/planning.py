"""How is a request over HTTP answered? What it names in the database is fetched, the tuner does the rest."""

from time import perf_counter
from typing import Any

from api.database import Database
from api.documents import find_document
from api.problems import InvalidProblem
from api.tables import DocumentKind
from profiles import library
from profiles.timings import Profile
from tuner.errors import UnsupportedModelError
from tuner.families import FAMILIES
from tuner.plan import Plan
from tuner.planning import answer
from tuner.request import InlineModel, PlanRequest

NO_WORKER = (
    "No worker is connected to this service that could trace or measure it. Run `chimera profile` where the "
    'model can be built, post the profile to /v1/profiles, and name it here: "model": {"profile": id}'
)


def plan(request: PlanRequest, database: Database) -> tuple[Plan, float]:
    """The plan and the seconds it took. Raises TunerError, DocumentError or InvalidProblem."""
    profile = find_profile(request, database)
    start = perf_counter()
    try:
        found = answer(request, library, profile=profile)
    except UnsupportedModelError as error:
        if not _is_unknown_architecture(request):
            raise
        raise InvalidProblem(f"{str(error).rstrip('. ')}. {NO_WORKER}") from None
    return found, perf_counter() - start


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as JSON, as it is stored and as `chimera plan --json` prints it."""
    return plan.model_dump(mode="json")


def find_profile(request: PlanRequest, database: Database) -> Profile | None:
    """The stored profile that a request names; raises InvalidProblem where there is none."""
    if not isinstance(request.model, InlineModel) or request.model.profile is None:
        return None
    with database.reading() as session:
        stored = find_document(session, DocumentKind.PROFILE, request.model.profile)
        if stored is None:
            raise InvalidProblem(
                f"there is no profile {request.model.profile[:80]!r}: post it to /v1/profiles, "
                "and use the id it gets"
            )
        return Profile.from_value(stored.document, name="the stored profile")


def _is_unknown_architecture(request: PlanRequest) -> bool:
    config = request.model.config if isinstance(request.model, InlineModel) else None
    kind = (config or {}).get("model_type")
    return isinstance(kind, str) and bool(kind) and kind not in FAMILIES
