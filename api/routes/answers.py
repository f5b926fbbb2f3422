"""/v1/studies/{id}/...: the parts of an answer, as pages of JSON, a report, or another program's words."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query
from fastapi.responses import HTMLResponse, JSONResponse, Response

from api.access.auth import READING
from api.computing import reports
from api.reports.spreadsheets import TABLES, Table
from api.routes.studies import StudyId
from api.service import BaseDependency, Service, ServiceDependency
from api.studies import recordings
from api.studies import store as studies
from api.studies.outcomes import as_tuning
from api.studies.questions import texts_of
from api.studies.trials import entry, jobs_of, read_trials
from api.studies.versions import NEWS
from api.web.headers import STANDALONE_POLICY
from api.web.paging import Limit, Position, slice_page
from api.web.problems import responses
from api.web.study_schemas import CandidatePage, RejectedPage, TrialPage
from tuner.exports import export
from tuner.trials import TrialStatus

router = APIRouter(prefix="/v1/studies/{study_id}", tags=["answers"], dependencies=[READING, NEWS])

Schedule = Annotated[str | None, Query(max_length=100, description="Only configurations of this schedule.")]
Size = Annotated[int | None, Query(ge=1, description="Only configurations of this width or depth.")]
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
    """List the configurations that were not taken, each with its reason.

    Where a whole layout was rejected the schedule is null: it is among those of every schedule.
    """
    with service.database.reading() as session:
        rejected = studies.find_plan(session, study_id)["rejected"]
    wanted = [
        each
        for each in rejected
        if kind in {None, each["kind"]}
        and (schedule is None or each["configuration"].get("schedule") in {None, schedule})
        and _is(each["configuration"], width=width, depth=depth)
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
    held = recordings.held_recordings(service, question, tuning=tuning, recordings=recorded) if tuning else []
    made = service.computing.call(
        reports.report,
        texts_of(question),
        (tuning or plan).model_dump_json(),
        has_trials=tuning is not None,
        recorded=reports.LANES.dump_json(held).decode(),
    )
    return HTMLResponse(
        made.content,
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
