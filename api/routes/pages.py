"""/ and /studies/{id}: the pages that people read, and what they load."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, Response

from api import studies
from api.assets import NAMES, asset
from api.auth import READING
from api.catalogue import catalogue
from api.pages import page
from api.paging import Cursor
from api.problems import NotFoundProblem
from api.reports.report import StudyNote, render_report
from api.service import BaseDependency, ServiceDependency
from tuner.plan import Plan

STUDIES_ON_A_PAGE = 25
_FOR_EVER = "public, max-age=31536000, immutable"

router = APIRouter(include_in_schema=False)


@router.get("/", dependencies=[READING])
def show_index(
    *,
    service: ServiceDependency,
    base: BaseDependency,
    name: Annotated[str, Query(max_length=200)] = "",
    cursor: Cursor = None,
) -> HTMLResponse:
    """The form and the newest studies."""
    with service.database.reading() as session:
        found = studies.list_studies(
            session,
            name=name or None,
            cursor=cursor,
            limit=STUDIES_ON_A_PAGE,
            base=base,
            now=service.clock(),
        )
    return page("index.html", base=base, studies=found, name=name, cursor=cursor, catalogue=catalogue())


@router.get("/studies/{study_id}", dependencies=[READING])
def show_study(study_id: str, service: ServiceDependency, base: BaseDependency) -> HTMLResponse:
    """The report of a study."""
    with service.database.reading() as session:
        study = studies.find_study(session, study_id)
        plan = Plan.model_validate(studies.find_plan(session, study_id))
    note = StudyNote(study.id, study.name, f"{study.created_at:%d %B %Y, %H:%M} UTC")
    return HTMLResponse(render_report(plan, standalone=False, study=note, base=base))


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
