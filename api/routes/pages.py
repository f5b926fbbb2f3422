"""/studies/{id} and all other pages that people read, and what they load."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, Response

from api.access.auth import READING
from api.reports.live import render_live, render_state
from api.reports.report import StudyNote, render_report
from api.routes import (
    cluster_pages,
    comparing,
    crossover_pages,
    history_pages,
    index,
    profile_pages,
    worker_pages,
)
from api.service import BaseDependency, Service, ServiceDependency
from api.storage.tables import FINAL
from api.studies import recordings
from api.studies import store as studies
from api.studies.outcomes import as_tuning
from api.studies.questions import ask_again
from api.web.assets import NAMES, asset
from api.web.problems import NotFoundProblem
from tuner.plan import Plan
from tuner.tuning import Tuning

_FOR_EVER = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)
for part in (index, comparing, profile_pages, cluster_pages, worker_pages, history_pages, crossover_pages):
    router.include_router(part.router)


@router.get("/studies/{study_id}", dependencies=[READING])
def show_study(study_id: str, service: ServiceDependency, base: BaseDependency) -> HTMLResponse:
    """The report of a study, or how far it is."""
    seen = _see(study_id, service, base)
    if seen.plan is None or not seen.is_final:
        return HTMLResponse(render_live(seen.document, seen.tuning, base=base))
    asked = seen.document["created_at"]
    when = f"{datetime.fromisoformat(asked):%d %B %Y, %H:%M} UTC"
    note = StudyNote(study_id, seen.document["name"], when, seen.traces, seen.asked_again)
    return HTMLResponse(render_report(seen.tuning or seen.plan, standalone=False, study=note, base=base))


@router.get("/studies/{study_id}/state", dependencies=[READING])
def show_state(study_id: str, service: ServiceDependency, base: BaseDependency) -> HTMLResponse:
    """How far a study is, to be put into its page."""
    seen = _see(study_id, service, base)
    return HTMLResponse(render_state(seen.document, seen.tuning, base=base))


@dataclass(frozen=True)
class _Seen:
    """A study at one moment."""

    document: dict[str, Any]
    plan: Plan | None
    tuning: Tuning | None
    is_final: bool
    traces: tuple[int, ...]
    """The trials whose recorded timelines are there."""
    asked_again: dict[str, Any] | None
    """The question as POST /v1/plans takes it."""


def _see(study_id: str, service: Service, base: str) -> _Seen:
    with service.database.reading() as session:
        study = studies.find_study(session, study_id)
        document = studies.study_document(session, study, base=base, now=service.clock())
        plan = Plan.model_validate(study.plan) if study.plan is not None else None
        tuning = as_tuning(session, study, plan) if plan is not None else None
        traces = recordings.numbers_with_trace(session, study_id) if tuning is not None else []
        asked = ask_again(session, study) if plan is not None else None
        return _Seen(document, plan, tuning, study.status in FINAL, tuple(traces), asked)


@router.get("/assets/{digest}/{name}")
def read_asset(
    request: Request, digest: Annotated[str, Path(max_length=64)], name: Annotated[str, Path(max_length=64)]
) -> Response:
    """A script, a style or an icon; its address changes with its content."""
    if name not in NAMES or asset(name).digest != digest:
        raise NotFoundProblem("there is no such file; reload the page")
    found = asset(name)
    headers = {"Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(found.compressed, media_type=found.media_type, headers=headers)
    return Response(found.text, media_type=found.media_type, headers=headers)


@router.get("/favicon.ico")
def read_icon(request: Request) -> Response:
    """The icon, where browsers look for it unasked."""
    return read_asset(request, asset("icon.svg").digest, "icon.svg")
