"""/v1/studies/{id}/...: the parts of an answer, as pages of JSON, a report, or another program's words."""

import gzip
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from api.access.auth import READING
from api.reports.report import render_report
from api.reports.spreadsheets import TABLES, Table
from api.routes.studies import StudyId
from api.service import BaseDependency, Service, ServiceDependency
from api.studies import recordings, timelines
from api.studies import store as studies
from api.studies.outcomes import as_tuning
from api.studies.trials import entry, jobs_of, read_trials
from api.studies.versions import NEWS
from api.web.headers import STANDALONE_POLICY
from api.web.paging import Limit, Position, slice_page
from api.web.problems import InvalidProblem, responses
from api.web.schemas import TimelineDocument
from api.web.study_schemas import CandidatePage, RejectedPage, TrialPage
from tuner.exports import export
from tuner.traces import trace_json
from tuner.trials import TrialStatus

router = APIRouter(prefix="/v1/studies/{study_id}", tags=["answers"], dependencies=[READING, NEWS])

Schedule = Annotated[str | None, Query(max_length=100, description="Only configurations of this schedule.")]
Size = Annotated[int | None, Query(ge=1, description="Only configurations of this width or depth.")]
Place = Annotated[
    int | None, Query(ge=1, description="A place in the ranked candidates instead of the choice, from 1.")
]
RejectedKind = Literal["memory", "batch", "layout", "target", "domain"]


@router.get("/candidates", response_model=CandidatePage, responses=responses(404, 409, 422))
def list_candidates(
    *,
    study_id: StudyId,
    service: ServiceDependency,
    schedule: Schedule = None,
    width: Size = None,
    depth: Size = None,
    cursor: Position = None,
    limit: Limit = 50,
) -> JSONResponse:
    """List the configurations that fit, the fastest first."""
    with service.database.reading() as session:
        candidates = studies.find_plan(session, study_id)["candidates"]
    wanted = [each for each in candidates if _is(each, schedule=schedule, width=width, depth=depth)]
    return JSONResponse(slice_page(wanted, cursor=cursor, limit=limit))


@router.get("/rejected", response_model=RejectedPage, responses=responses(404, 409, 422))
def list_rejected(
    *,
    study_id: StudyId,
    service: ServiceDependency,
    kind: Annotated[RejectedKind | None, Query(description="Only those rejected for this.")] = None,
    schedule: Schedule = None,
    width: Size = None,
    depth: Size = None,
    cursor: Position = None,
    limit: Limit = 100,
) -> JSONResponse:
    """List the configurations that were not taken, each with its reason."""
    with service.database.reading() as session:
        rejected = studies.find_plan(session, study_id)["rejected"]
    wanted = [
        each
        for each in rejected
        if kind in {None, each["kind"]}
        and _is(each["configuration"], schedule=schedule, width=width, depth=depth)
    ]
    return JSONResponse(slice_page(wanted, cursor=cursor, limit=limit))


def _is(configuration: dict[str, Any], **wanted: Any) -> bool:
    return all(value in {None, configuration.get(name)} for name, value in wanted.items())


@router.get("/trials", response_model=TrialPage, responses=responses(404, 422))
def list_trials(
    *,
    study_id: StudyId,
    service: ServiceDependency,
    base: BaseDependency,
    status: Annotated[TrialStatus | None, Query(description="Only trials that stand there.")] = None,
    schedule: Schedule = None,
    cursor: Position = None,
    limit: Limit = 50,
) -> JSONResponse:
    """List the trials of a study, in the order in which they were proposed; none without `refine`."""
    with service.database.reading() as session:
        studies.find_study(session, study_id)
        trials = read_trials(session, study_id)
        jobs = jobs_of(session, trials)
        entries = [entry(trial, job=jobs.get(trial.job_id), base=base) for trial in trials]
    wanted = [
        each
        for each in entries
        if status in {None, each["status"]} and schedule in {None, each["configuration"]["schedule"]}
    ]
    return JSONResponse(slice_page(wanted, cursor=cursor, limit=limit))


@router.get(
    "/report",
    response_class=HTMLResponse,
    responses=responses(404, 409, 422, 429)
    | {200: {"content": {"text/html": {}}, "description": "One file."}},
)
async def read_report(study_id: StudyId, service: ServiceDependency) -> HTMLResponse:
    """The report as one HTML file that opens without a network."""
    return await service.effort.run(lambda: _report(service, study_id))


def _report(service: Service, study_id: str) -> HTMLResponse:
    with service.database.reading() as session:
        question, plan = studies.read_question(session, study_id)
        study = studies.find_study(session, study_id)
        tuning = as_tuning(session, study, plan)
        recorded = recordings.read_recordings(session, study_id) if tuning else {}
    service.charge("reports")
    timeline = timelines.read_embedded(question, plan)
    beside = timelines.read_beside(question, plan)
    if tuning is not None:
        beside += recordings.held_recordings(service, question, tuning=tuning, recordings=recorded)
    return HTMLResponse(
        render_report(tuning or plan, standalone=True, timeline=timeline, beside=beside),
        headers={
            "Content-Security-Policy": STANDALONE_POLICY,
            "Content-Disposition": f'inline; filename="chimera-{study_id}.html"',
        },
    )


@router.get(
    "/{table}.csv",
    response_class=Response,
    responses=responses(404, 409, 422)
    | {200: {"content": {"text/csv": {}}, "description": "A table for a spreadsheet."}},
)
def read_table(study_id: StudyId, table: Table, service: ServiceDependency) -> Response:
    """All that the plan lists of its candidates, or of what it rejected and why, or the trials, as CSV."""
    with service.database.reading() as session:
        study, plan = studies.find_study(session, study_id), studies.read_plan(session, study_id)
        tuning = as_tuning(session, study, plan)
    return Response(
        TABLES[table](tuning or plan),
        media_type="text/csv",
        headers={"Content-Disposition": f'attachment; filename="chimera-{study_id}-{table}.csv"'},
    )


@router.get("/timeline", response_model=TimelineDocument, responses=responses(404, 409, 422, 429))
async def read_timeline(
    *,
    request: Request,
    study_id: StudyId,
    service: ServiceDependency,
    candidate: Place = None,
    trial: Annotated[int | None, Query(ge=1, description="What this trial recorded.")] = None,
) -> Response:
    """The iteration of the choice, of another candidate or of a trial, in columns: what the page draws."""
    if candidate is not None and trial is not None:
        raise InvalidProblem(f"candidate={candidate} and trial={trial} are two timelines: ask for one")

    def find() -> timelines.KeptTimeline:
        with service.database.reading() as session:
            question, plan = studies.read_question(session, study_id)
            recording = None if trial is None else recordings.read_recording(session, study_id, trial)
        if recording is not None:
            return recordings.find_recorded(service, question, recording)
        return timelines.find_simulated(service, question, timelines.candidate_of(plan, candidate))

    return _compressed(request, await service.effort.run(find))


def _compressed(request: Request, found: timelines.KeptTimeline) -> Response:
    """A timeline, or that the client has it already."""
    tag = f'W/"{found.key[:32]}"'
    headers = {"ETag": tag, "Vary": "Accept-Encoding"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(found.gzipped, media_type="application/json", headers=headers)
    return Response(gzip.decompress(found.gzipped), media_type="application/json", headers=headers)


@router.get(
    "/trace",
    response_class=Response,
    responses=responses(404, 409, 422, 429)
    | {200: {"content": {"application/json": {}}, "description": "Trace Event JSON, for Perfetto."}},
)
async def read_trace(study_id: StudyId, service: ServiceDependency, candidate: Place = None) -> Response:
    """The same iteration with its messages, as Perfetto and chrome://tracing read it."""
    return await service.effort.run(lambda: _trace(service, study_id, candidate))


def _trace(service: Service, study_id: str, candidate: int | None) -> Response:
    with service.database.reading() as session:
        question, plan = studies.read_question(session, study_id)
    service.charge("timelines")
    timeline = timelines.simulate(question, timelines.candidate_of(plan, candidate))
    name = f"chimera-{study_id}{f'-candidate-{candidate}' if candidate else ''}.trace.json"
    return Response(
        trace_json(timeline),
        media_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


@router.get(
    "/export/{export_format}",
    response_class=Response,
    responses=responses(404, 409, 422)
    | {200: {"content": {"text/plain": {}, "application/json": {}}, "description": "The launch settings."}},
)
def read_export(
    study_id: StudyId,
    export_format: Annotated[str, Path(max_length=100, description="A format of the catalogue.")],
    service: ServiceDependency,
) -> Response:
    """The choice in the words of the program that will run it."""
    with service.database.reading() as session:
        plan = studies.read_plan(session, study_id)
    text, media_type = export(plan, export_format)
    return Response(text, media_type=media_type)
