"""/v1/studies: questions that are kept with their answers."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api import planning
from api.access import audit
from api.access.auth import READING, Caller, Submitter
from api.bell import wait_for_ring
from api.routes.plans import EXAMPLE
from api.service import BaseDependency, Service, ServiceDependency
from api.storage.tables import FINAL, Study, StudyStatus
from api.studies import progress
from api.studies import store as studies
from api.studies.needs import check_trials, check_workers, needs_of
from api.studies.submissions import read_submission
from api.studies.versions import NEWS
from api.web import request_record
from api.web.bodies import BodyDependency
from api.web.deadline import current_deadline
from api.web.idempotency import Answer, KeyHeader, Once
from api.web.openapi import json_body
from api.web.paging import Cursor, Limit
from api.web.problems import responses
from api.web.study_schemas import StudyDocument, StudyPage, StudyRequest

StudyId = Annotated[str, Path(max_length=100, description="The id of a study.")]
Wait = Annotated[
    float, Query(ge=0, le=30, description="Seconds to wait for a study that is not answered at once.")
]

CREATED, ACCEPTED = 201, 202
LOOKED_EVERY_S = 1.0
"""For what other processes write; what this one does rings the bell."""

router = APIRouter(prefix="/v1/studies", tags=["studies"])


@router.post(
    "",
    status_code=201,
    response_model=StudyDocument,
    responses=responses(400, 409, 413, 415, 422, 429)
    | {202: {"model": StudyDocument, "description": "Workers measure first; `waiting_for` says what."}},
    openapi_extra=json_body(StudyRequest, example={**EXAMPLE, "name": "before the night run"}),
)
async def create_study(
    *,
    request: Request,
    caller: Submitter,
    body: BodyDependency,
    service: ServiceDependency,
    base: BaseDependency,
    key: KeyHeader = None,
    wait: Wait = 0,
) -> JSONResponse:
    """Plan and keep the answer: 201. That nothing fits is an answer too.

    Where workers have to measure first, or `refine` asks for trials, the study is begun: 202.
    """
    once = Once(service, caller.identity, key, body.fingerprint("POST /v1/studies"))
    current_deadline().extend(wait)
    answer = await service.effort.run(lambda: _create(service, once, body.value, caller=caller, base=base))
    if answer.status == ACCEPTED:
        document, ended = await _see(service, request, answer.body["id"], wait=wait, base=base)
        status = CREATED if ended and wait else ACCEPTED
        return JSONResponse(document or answer.body, status_code=status, headers=answer.headers)
    return JSONResponse(answer.body, status_code=answer.status, headers=answer.headers)


def _create(service: Service, once: Once, value: Any, *, caller: Caller, base: str) -> Answer:
    """Answer at once where no worker is needed; else begin, and go on as far as possible."""
    submission = read_submission(value)
    with service.database.reading() as session:
        needs = needs_of(submission.request, submission.refine, caller=caller.owner)
        if submission.refine is not None:
            check_trials(session, submission.request)
        check_workers(session, needs, service)

    def work() -> dict[str, Any] | None:
        service.charge("studies")
        if needs.jobs:
            return None
        return planning.plan_document(planning.plan(submission.request, service))

    def store(session: Session, plan: dict[str, Any] | None) -> Answer:
        now = service.clock()
        if plan is None:
            study = studies.new_study(session, submission, caller=caller.owner, now=now)
        else:
            study = studies.answered_study(session, submission, plan, caller=caller.owner, now=now)
        document = studies.study_document(session, study, base=base, now=now)
        status = ACCEPTED if plan is None else CREATED
        return Answer(status, document, {"Location": document["links"]["self"]})

    answer = once.answer(work, store)
    request_record.note(study_id=answer.body["id"])
    if answer.status == ACCEPTED:
        progress.advance(service, answer.body["id"])
    return answer


@router.get("", response_model=StudyPage, responses=responses(422), dependencies=[READING])
def list_studies(
    *,
    service: ServiceDependency,
    base: BaseDependency,
    status: Annotated[StudyStatus | None, Query(description="Only studies that stand there.")] = None,
    model: Annotated[str | None, Query(max_length=200, description="Only studies of this model.")] = None,
    name: Annotated[str | None, Query(max_length=200, description="Only names that contain this.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> JSONResponse:
    """List studies, the newest first, without requests and plans."""
    with service.database.reading() as session:
        found = studies.list_studies(
            session,
            status=status,
            model=model,
            name=name,
            cursor=cursor,
            limit=limit,
            base=base,
            now=service.clock(),
        )
    return JSONResponse(found)


@router.get(
    "/{study_id}",
    response_model=StudyDocument,
    responses=responses(404, 422),
    dependencies=[READING, NEWS],
)
async def read_study(
    *,
    request: Request,
    study_id: StudyId,
    service: ServiceDependency,
    base: BaseDependency,
    wait: Wait = 0,
) -> JSONResponse:
    """Read a study with its request and plan, once it has ended or the time to wait is over."""
    current_deadline().extend(wait)
    document, _ = await _see(service, request, study_id, wait=wait, base=base)
    if document is None:
        raise studies.no_study(study_id)
    return JSONResponse(document)


@router.post("/{study_id}/cancel", response_model=StudyDocument, responses=responses(404, 409, 422))
def cancel_study(
    *, study_id: StudyId, caller: Submitter, service: ServiceDependency, base: BaseDependency
) -> JSONResponse:
    """Stop a study that is not done yet, and its jobs: for its owner, or an admin."""
    now = service.clock()
    with service.database.writing() as session:
        _require_own(session, study_id, caller)
        study: Study = studies.cancel_study(session, study_id, now=now)
        document = studies.study_document(session, study, base=base, now=now)
        audit.record(session, study_id, now=now)
    service.bell.ring()
    return JSONResponse(document)


@router.delete("/{study_id}", status_code=204, responses=responses(404, 422))
def delete_study(*, study_id: StudyId, caller: Submitter, service: ServiceDependency) -> Response:
    """Forget a study and stop its jobs: for its owner, or an admin."""
    with service.database.writing() as session:
        _require_own(session, study_id, caller)
        studies.delete_study(session, study_id, now=service.clock())
        audit.record(session, study_id, now=service.clock(), status=204)
    service.bell.ring()
    return Response(status_code=204)


async def _see(
    service: Service, request: Request, study_id: str, *, wait: float, base: str
) -> tuple[dict[str, Any] | None, bool]:
    """The study and whether it has ended, waiting up to `wait` seconds for that; None where there is none."""

    def look() -> tuple[dict[str, Any] | None, bool]:
        with service.database.reading() as session:
            study = studies.look_for(session, study_id)
            if study is None:
                return None, True
            document = studies.study_document(session, study, base=base, now=service.clock())
            return document, study.status in FINAL

    loop = asyncio.get_running_loop()
    until = loop.time() + wait
    ringing = service.bell.listen()
    try:
        while True:
            document, ended = await run_in_threadpool(look)
            left_s = until - loop.time()
            if ended or left_s <= 0 or service.bell.closed or await request.is_disconnected():
                return document, ended
            await wait_for_ring(ringing, most_s=min(left_s, LOOKED_EVERY_S))
    finally:
        service.bell.leave(ringing)


def _require_own(session: Session, study_id: str, caller: Caller) -> None:
    study = studies.find_study(session, study_id)
    caller.require_own(study.created_by, what=f"study {study.id}")
