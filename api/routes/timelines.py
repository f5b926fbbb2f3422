"""/v1/studies/{id}/timeline and /trace: what was chosen, another candidate, or a trial, over time."""

import gzip
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from api.access.auth import READING
from api.routes.studies import StudyId
from api.service import Service, ServiceDependency
from api.studies import recordings, timelines
from api.studies import store as studies
from api.studies.versions import NEWS
from api.web.problems import InvalidProblem, responses
from api.web.schemas import TimelineDocument

router = APIRouter(prefix="/v1/studies/{study_id}", tags=["answers"], dependencies=[READING, NEWS])

_LAST = 1_000_000
"""More than any plan lists, or any study tries; Postgres has no room for every whole number."""

Place = Annotated[
    int | None,
    Query(ge=1, le=_LAST, description="A place in the ranked candidates instead of the choice, from 1."),
]
Number = Annotated[int | None, Query(ge=1, le=_LAST, description="What the trial of this number recorded.")]


@router.get("/timeline", response_model=TimelineDocument, responses=responses(404, 409, 422, 429))
async def read_timeline(
    *,
    request: Request,
    study_id: StudyId,
    service: ServiceDependency,
    candidate: Place = None,
    trial: Number = None,
) -> Response:
    """The iteration of the choice, of another candidate or of a trial, in columns: what the page draws."""
    _refuse_two(candidate, trial)

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
async def read_trace(
    *, study_id: StudyId, service: ServiceDependency, candidate: Place = None, trial: Number = None
) -> Response:
    """The same iteration with its messages, as Perfetto and chrome://tracing read it."""
    _refuse_two(candidate, trial)
    if trial is not None:
        return await service.effort.run(lambda: _recorded(service, study_id, trial))
    return await service.effort.run(lambda: _simulated(service, study_id, candidate))


def _recorded(service: Service, study_id: str, trial: int) -> Response:
    """The trace as the worker attached it: measured, and beside it what it had predicted."""
    with service.database.reading() as session:
        studies.find_study(session, study_id)
        recording = recordings.read_recording(session, study_id, trial)
    return _trace(recording.text(), f"chimera-{study_id}-trial-{trial}")


def _simulated(service: Service, study_id: str, candidate: int | None) -> Response:
    with service.database.reading() as session:
        question, plan = studies.read_question(session, study_id)
    found = timelines.find_trace(service, question, timelines.candidate_of(plan, candidate))
    place = f"-candidate-{candidate}" if candidate else ""
    return _trace(found, f"chimera-{study_id}{place}")


def _trace(content: bytes, name: str) -> Response:
    return Response(
        content,
        media_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{name}.trace.json"'},
    )


def _refuse_two(candidate: int | None, trial: int | None) -> None:
    if candidate is not None and trial is not None:
        raise InvalidProblem(f"candidate={candidate} and trial={trial} are two timelines: ask for one")
