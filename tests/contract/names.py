"""Which names does the service promise? Addresses with their parameters, and the keys of its documents."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from api.app import create_app
from api.service import Service
from api.settings import Settings
from api.storage.database import open_database
from api.web.schemas import NewKey, PlanAnswer
from api.web.study_schemas import StudyDocument, StudyPage, StudyRequest, TrialPage
from profiles.calibration import Calibration
from profiles.cluster import ClusterProfile
from profiles.measurement import Measurements
from profiles.timings import Profile
from tuner.assignments import ProfileJobRequest, Trial, TrialResult
from tuner.crossover import Crossover
from tuner.job_documents import JobDocument, WorkerEntry
from tuner.messages import Claim, Finish, FinishReply, Heartbeat, HeartbeatReply, Job
from tuner.regressions.answer import CiAnswer
from tuner.regressions.check import Check
from tuner.regressions.records import Baseline
from tuner.score import Score
from tuner.simulation_answer import SimulationAnswer
from tuner.tuning import Tuning

FOLDER = Path(__file__).parent
_SHAPE = frozenset(
    {"properties", "$defs", "$ref", "required", "type", "enum", "const", "anyOf", "oneOf", "allOf", "items"}
    | {"prefixItems", "additionalProperties"}
)
SCHEMAS: dict[str, tuple[type[BaseModel], str]] = {
    "plan": (PlanAnswer, "serialization"),
    "study": (StudyDocument, "serialization"),
    "study_page": (StudyPage, "serialization"),
    "study_request": (StudyRequest, "validation"),
    "trial_page": (TrialPage, "serialization"),
    "simulation": (SimulationAnswer, "serialization"),
    "profile": (Profile, "validation"),
    "cluster": (ClusterProfile, "validation"),
    "measurements": (Measurements, "validation"),
    "profile_job_request": (ProfileJobRequest, "validation"),
    "job_document": (JobDocument, "serialization"),
    "worker": (WorkerEntry, "serialization"),
    "key": (NewKey, "serialization"),
    "claim": (Claim, "validation"),
    "job": (Job, "serialization"),
    "heartbeat": (Heartbeat, "validation"),
    "heartbeat_reply": (HeartbeatReply, "serialization"),
    "finish": (Finish, "validation"),
    "finish_reply": (FinishReply, "serialization"),
    "trial": (Trial, "validation"),
    "trial_result": (TrialResult, "validation"),
    "calibration": (Calibration, "validation"),
    "score": (Score, "serialization"),
    "tuning": (Tuning, "serialization"),
    "crossover": (Crossover, "serialization"),
    "ci": (CiAnswer, "serialization"),
    "ci_baseline": (Baseline, "validation"),
    "check": (Check, "validation"),
}
"""Documents whose schema is kept here, and how each travels."""


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document: its keys, their types and the words they take."""
    model, mode = SCHEMAS[name]
    made: dict[str, Any] = shape(model.model_json_schema(mode=mode))  # type: ignore[arg-type]
    return made


def described(folder: Path) -> dict[str, Any]:
    """The OpenAPI document of a service in `folder`."""
    url = f"sqlite:///{folder}/chimera.db"
    database = open_database(url)
    document = create_app(service=Service(Settings(database_url=url), database)).openapi()
    database.close()
    return document


def operations(folder: Path) -> dict[str, Any]:
    """The addresses of the service: method, parameters, statuses and whether there is a body."""
    document = described(folder)
    found: dict[str, Any] = {}
    for path, methods in sorted(document["paths"].items()):
        for method, operation in sorted(methods.items()):
            found[f"{method.upper()} {path}"] = {
                "operation": operation["operationId"],
                "parameters": sorted(
                    f"{entry['in']} {entry['name']}" for entry in operation.get("parameters", [])
                ),
                "statuses": sorted(operation["responses"]),
                "body": _reference(operation.get("requestBody")),
            }
    return found


def flat(value: Any, place: str = "") -> Iterator[str]:
    """Every key and every word of a JSON value, each with its place."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield f"{place}.{key}"
            yield from flat(entry, f"{place}.{key}")
    elif isinstance(value, list):
        for entry in value:
            yield from flat(entry, f"{place}[]")
    elif isinstance(value, str):
        yield f"{place}={value}"


def shape(value: Any, *, names: bool = False) -> Any:
    """A schema without prose, bounds and defaults; `names` says that keys are names of properties."""
    if isinstance(value, list):
        return [shape(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        key: shape(entry, names=key in {"properties", "$defs"} and not names)
        for key, entry in value.items()
        if names or key in _SHAPE
    }


def _reference(body: dict[str, Any] | None) -> str | None:
    if body is None:
        return None
    return str(body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2])
