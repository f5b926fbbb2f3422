"""How does the service describe itself? In OpenAPI, with the bodies that handlers read as raw JSON."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema

from api.crossovers import CrossoverRequest
from api.documents.calibrations import FitRequest
from api.web.problems import ProblemDocument
from api.web.schemas import KeyRequest
from api.web.study_schemas import StudyRequest
from profiles.calibration import Calibration
from profiles.cluster import ClusterProfile
from profiles.measurement import Measurements
from profiles.timings import Profile
from tuner.assignments import ProfileJobRequest
from tuner.messages import Claim, Finish, Heartbeat
from tuner.regressions.check import Check
from tuner.request import PlanRequest

_REFERENCE = "#/components/schemas/{model}"
_BODIES = (
    PlanRequest,
    StudyRequest,
    Profile,
    ClusterProfile,
    Measurements,
    ProfileJobRequest,
    Calibration,
    FitRequest,
    Check,
    CrossoverRequest,
    KeyRequest,
    Claim,
    Heartbeat,
    Finish,
)

_OPEN = frozenset({"/healthz", "/readyz"})
"""What answers everybody, also where every other address wants a key."""
_SHARED: dict[tuple[int, ...], tuple[list[APIRoute], dict[str, Any]]] = {}
"""Documents by the identities of their routes, which are kept beside them so that no others get these."""


def json_body(model: type, *, example: dict[str, Any] | None = None) -> dict[str, Any]:
    """The OpenAPI entry of a body that is read as JSON and checked against `model` by the handler."""
    content: dict[str, Any] = {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}
    if example is not None:
        content["example"] = example
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


class DescribedApp(FastAPI):
    """A FastAPI application whose document also holds the schemas of bodies and problems."""

    def openapi(self) -> dict[str, Any]:
        """The document, made once for all applications that share their routes."""
        if self.openapi_schema is None:
            routes = [route for route in self.routes if isinstance(route, APIRoute)]
            key = tuple(map(id, routes))
            _, document = _SHARED.get(key) or _SHARED.setdefault(key, (routes, self._describe()))
            needs_keys = self.state.service.settings.keys_are_required
            self.openapi_schema = document | {"security": [{"key": []}, *([] if needs_keys else [{}])]}
        return self.openapi_schema

    def _describe(self) -> dict[str, Any]:
        """All but who needs a key, which the settings say."""
        document = get_openapi(
            title=self.title, version=self.version, description=self.description, routes=self.routes
        )
        modes: list[tuple[Any, JsonSchemaMode]] = [(body, "validation") for body in _BODIES]
        _, bodies = models_json_schema(
            [*modes, (ProblemDocument, "serialization")],
            ref_template=_REFERENCE,
            schema_generator=GenerateJsonSchema,
        )
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name, schema in bodies["$defs"].items():
            schemas.setdefault(name, schema)
        _describe_tags(document["paths"])
        document["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path in _OPEN.intersection(document["paths"]):
            for operation in document["paths"][path].values():
                operation["security"] = []
        return document


def _describe_tags(paths: dict[str, Any]) -> None:
    """Every answer to GET has an ETag, but for streams."""
    for path, methods in paths.items():
        answers = methods.get("get", {}).get("responses", {})
        if path.startswith("/v1/") and "text/event-stream" not in answers.get("200", {}).get("content", {}):
            answers["304"] = {"description": "The client has this answer: If-None-Match holds its ETag."}
