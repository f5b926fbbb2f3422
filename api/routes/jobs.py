"""/v1/jobs, /v1/workers, /v1/profile-jobs: what people ask of workers, and see of them."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from sqlalchemy.orm import Session
from starlette.background import BackgroundTask

from api.access import audit
from api.access.auth import READING, Submitter
from api.jobs import equal_jobs, intake, queue, workers
from api.jobs import listing as jobs
from api.service import BaseDependency, ServiceDependency
from api.studies import progress
from api.web import request_record
from api.web.bodies import BodyDependency
from api.web.idempotency import Answer, KeyHeader, Once
from api.web.openapi import json_body
from api.web.paging import Cursor, Limit
from api.web.problems import responses
from api.web.schemas import JobPage, WorkerPage
from tuner.assignments import ProfileJobRequest
from tuner.job_documents import JobDocument
from tuner.messages import JobKind, JobStatus

JobId = Annotated[str, Path(max_length=100, description="The id of a job.")]
Exactly = Annotated[str | None, Query(max_length=100)]
EXAMPLE = {"model": "tiny-gpt", "micro_batch_sizes": [1, 2, 4], "pool": "default"}

router = APIRouter(prefix="/v1", tags=["jobs"])


@router.post(
    "/profile-jobs",
    status_code=202,
    response_model=JobDocument,
    responses=responses(400, 409, 413, 415, 422, 429)
    | {200: {"model": JobDocument, "description": "It was asked before: that job."}},
    openapi_extra=json_body(ProfileJobRequest, example=EXAMPLE),
)
def create_profile_job(
    *,
    caller: Submitter,
    body: BodyDependency,
    service: ServiceDependency,
    base: BaseDependency,
    key: KeyHeader = None,
) -> JSONResponse:
    """Have a worker profile a model. Done, the job's `result.profile` is an id under /v1/profiles.

    What was measured before is not measured again, unless the body has `measure_again`.
    """

    def work() -> queue.NewJob:
        job = intake.read_profile_job(body.value, caller=caller.owner)
        service.charge("profile jobs")
        return job

    def store(session: Session, job: queue.NewJob) -> Answer:
        before = None if body.value.get("measure_again") else equal_jobs.find_equal(session, job)
        row = before or queue.enqueue(session, job, now=service.clock())
        document = jobs.job_document(session, row.id, base=base, now=service.clock())
        return Answer(200 if before else 202, document, {"Location": document["links"]["self"]})

    once = Once(service, caller.identity, key, body.fingerprint("POST /v1/profile-jobs"))
    answer = once.answer(work, store)
    request_record.note(job_id=answer.body["id"])
    service.bell.ring()
    return JSONResponse(answer.body, status_code=answer.status, headers=answer.headers)


@router.get("/jobs", response_model=JobPage, responses=responses(422), dependencies=[READING])
def list_jobs(
    *,
    service: ServiceDependency,
    base: BaseDependency,
    status: Annotated[JobStatus | None, Query(description="Only jobs that stand there.")] = None,
    kind: Annotated[JobKind | None, Query(description="Only jobs of this kind.")] = None,
    pool: Exactly = None,
    study_id: Exactly = None,
    worker: Exactly = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> JSONResponse:
    """List jobs, the newest first, without payload, result and history."""
    wanted = jobs.Filter(status, kind, pool, study_id, worker)
    with service.database.reading() as session:
        found = jobs.list_jobs(session, wanted, cursor=cursor, limit=limit, base=base, now=service.clock())
    return JSONResponse(found)


@router.get(
    "/jobs/{job_id}", response_model=JobDocument, responses=responses(404, 422), dependencies=[READING]
)
def read_job(job_id: JobId, service: ServiceDependency, base: BaseDependency) -> JSONResponse:
    """Read a job with payload, result and everything that happened to it."""
    with service.database.reading() as session:
        return JSONResponse(jobs.job_document(session, job_id, base=base, now=service.clock()))


@router.post("/jobs/{job_id}/cancel", response_model=JobDocument, responses=responses(404, 409, 422))
def cancel_job(
    *, job_id: JobId, caller: Submitter, service: ServiceDependency, base: BaseDependency
) -> JSONResponse:
    """Stop a job, for its owner or an admin: at once while it waits, with the next heartbeat when it runs."""
    now = service.clock()
    with service.database.writing() as session:
        caller.require_own(queue.find_job(session, job_id).created_by, what=f"job {job_id}")
        queue.cancel(session, job_id, now=now)
        audit.record(session, job_id, now=now)
        document = jobs.job_document(session, job_id, base=base, now=now)
    return JSONResponse(document, background=BackgroundTask(progress.advance_after, service, job_id))


@router.get(
    "/jobs/{job_id}/attachments/{attempt}/{name}",
    response_class=Response,
    responses=responses(404, 422)
    | {200: {"content": {"text/plain": {}, "application/json": {}}, "description": "A log or a trace."}},
    dependencies=[READING],
)
def read_attachment(
    *,
    request: Request,
    job_id: JobId,
    attempt: Annotated[int, Path(ge=1, le=1_000)],
    name: Annotated[str, Path(max_length=60)],
    service: ServiceDependency,
) -> Response:
    """Read a log or a trace of an attempt, as long as it is kept."""
    with service.database.reading() as session:
        found = jobs.read_attachment(session, job_id, attempt=attempt, name=name)
    headers = {"Vary": "Accept-Encoding", "Content-Disposition": f'attachment; filename="{job_id}-{name}"'}
    if "deflate" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "deflate"
        return Response(found.content, media_type=found.media_type, headers=headers)
    return Response(jobs.inflated(found), media_type=found.media_type, headers=headers)


@router.get("/workers", response_model=WorkerPage, responses=responses(422), dependencies=[READING])
def list_workers(*, service: ServiceDependency, cursor: Cursor = None, limit: Limit = 50) -> JSONResponse:
    """List the workers that asked for jobs, the newest first, with what they have and hold."""
    with service.database.reading() as session:
        found = workers.list_workers(session, now=service.clock(), cursor=cursor, limit=limit)
    return JSONResponse(found)
