"""/v1/studies: questions that are kept with their answers."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.responses import JSONResponse, Response
from sqlalchemy.orm import Session

from api import planning, queue, studies
from api.auth import READING, Caller, Submitter
from api.bodies import BodyDependency
from api.idempotency import Answer, KeyHeader, Once
from api.openapi import json_body
from api.paging import Cursor, Limit
from api.problems import responses
from api.routes.plans import EXAMPLE
from api.schemas import StudyDocument, StudyPage, StudyRequest
from api.service import BaseDependency, ServiceDependency
from api.tables import Study, StudyStatus
from tuner.plan import Plan

StudyId = Annotated[str, Path(max_length=100, description="The id of a study.")]
Wait = Annotated[
    float, Query(ge=0, le=30, description="Seconds to wait for a study that is not answered at once.")
]

router = APIRouter(prefix="/v1/studies", tags=["studies"])


@router.post(
    "",
    status_code=201,
    response_model=StudyDocument,
    responses=responses(400, 409, 413, 415, 422),
    openapi_extra=json_body(StudyRequest, example={**EXAMPLE, "name": "before the night run"}),
)
def create_study(
    *,
    caller: Submitter,
    body: BodyDependency,
    service: ServiceDependency,
    base: BaseDependency,
    key: KeyHeader = None,
    wait: Wait = 0,  # noqa: ARG001  # every study is answered at once so far
) -> JSONResponse:
    """Plan and keep the answer. That nothing fits is an answer too."""
    submission = studies.read_submission(body.value)

    def store(session: Any, plan: Plan) -> Answer:
        study = studies.new_study(submission, plan, caller=caller.owner, now=service.clock())
        session.add(study)
        document = studies.study_document(study, base=base)
        return Answer(201, document, {"Location": document["links"]["self"]})

    once = Once(service, caller.identity, key, body.fingerprint("POST /v1/studies"))
    answer = once.answer(lambda: planning.plan(submission.request, service.database)[0], store)
    return JSONResponse(answer.body, status_code=answer.status, headers=answer.headers)


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
            session, status=status, model=model, name=name, cursor=cursor, limit=limit, base=base
        )
    return JSONResponse(found)


@router.get(
    "/{study_id}", response_model=StudyDocument, responses=responses(404, 422), dependencies=[READING]
)
def read_study(
    *,
    study_id: StudyId,
    service: ServiceDependency,
    base: BaseDependency,
    wait: Wait = 0,  # noqa: ARG001  # every study is answered at once so far
) -> JSONResponse:
    """Read a study with its request and plan."""
    with service.database.reading() as session:
        return JSONResponse(studies.study_document(studies.find_study(session, study_id), base=base))


@router.post("/{study_id}/cancel", response_model=StudyDocument, responses=responses(404, 409, 422))
def cancel_study(
    *, study_id: StudyId, caller: Submitter, service: ServiceDependency, base: BaseDependency
) -> JSONResponse:
    """Stop a study that is not done yet, and its jobs: for its owner, or an admin."""
    with service.database.writing() as session:
        _require_own(session, study_id, caller)
        queue.cancel_jobs_of(session, study_id, now=service.clock())
        study: Study = studies.cancel_study(session, study_id, now=service.clock())
        document = studies.study_document(study, base=base)
    return JSONResponse(document)


@router.delete("/{study_id}", status_code=204, responses=responses(404, 422))
def delete_study(*, study_id: StudyId, caller: Submitter, service: ServiceDependency) -> Response:
    """Forget a study and stop its jobs: for its owner, or an admin."""
    with service.database.writing() as session:
        _require_own(session, study_id, caller)
        queue.cancel_jobs_of(session, study_id, now=service.clock())
        studies.delete_study(session, study_id)
    return Response(status_code=204)


def _require_own(session: Session, study_id: str, caller: Caller) -> None:
    study = studies.find_study(session, study_id)
    caller.require_own(study.created_by, what=f"study {study.id}")
