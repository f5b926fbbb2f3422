"""/v1/jobs/claim, /heartbeat, /finish: what workers say to the service."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import IntegrityError
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool

from api.access import audit
from api.access.auth import WORKING, Caller, Worker
from api.bell import wait_for_ring
from api.jobs import intake, leases, queue, workers
from api.routes.jobs import JobId
from api.service import Service, ServiceDependency
from api.storage.tables import JobRow
from api.studies import progress
from api.web import request_record
from api.web.bodies import BodyDependency
from api.web.deadline import current_deadline
from api.web.openapi import json_body
from api.web.problems import StaleLeaseProblem, responses
from tuner import messages
from tuner.messages import (
    FINAL_STATUSES,
    Claim,
    Finish,
    FinishReply,
    Heartbeat,
    HeartbeatReply,
    Job,
    Released,
)

LOOKED_EVERY_S = 1.0
"""For jobs that another process queued, or whose lease ended; those of this process ring the bell."""
HEARTBEATS_IN_A_LEASE = 6

router = APIRouter(prefix="/v1/jobs", tags=["work"], dependencies=[WORKING])


@router.post(
    "/claim",
    response_model=Job,
    responses=responses(400, 409, 413, 415, 422, 426) | {204: {"description": "There is no job."}},
    openapi_extra=json_body(Claim),
)
async def claim_job(
    request: Request, *, caller: Worker, body: BodyDependency, service: ServiceDependency
) -> Response:
    """Lease the first job that the worker can do, waiting up to `wait_s` seconds; 204 if none comes."""
    message = messages.read_message(Claim, body.value)
    current_deadline().extend(message.wait_s)
    await run_in_threadpool(_greet, service, message, caller)
    loop = asyncio.get_running_loop()
    until = loop.time() + message.wait_s
    ringing, again = service.bell.listen(), False
    try:
        while True:
            job = await run_in_threadpool(_claim, service, message, again=again)
            left_s = until - loop.time()
            # A worker that went away must not be given a job, nor be charged with an attempt.
            gone = await request.is_disconnected()
            if job is not None and gone:
                await run_in_threadpool(_take_back, service, job)
            elif job is not None:
                request_record.note(job_id=job.id, study_id=job.study_id)
                return JSONResponse(job.model_dump(mode="json"))
            if left_s <= 0 or service.bell.closed or gone:
                return Response(status_code=204)
            await wait_for_ring(ringing, most_s=min(left_s, LOOKED_EVERY_S))
            if await request.is_disconnected():
                return Response(status_code=204)
            again = True
    finally:
        service.bell.leave(ringing)


@router.post(
    "/{job_id}/heartbeat",
    response_model=HeartbeatReply,
    responses=responses(400, 404, 409, 413, 415, 422, 426),
    openapi_extra=json_body(Heartbeat),
)
def send_heartbeat(job_id: JobId, body: BodyDependency, service: ServiceDependency) -> JSONResponse:
    """Extend the lease, and learn whether the job was cancelled; 409 when the lease is not held any more."""
    message = messages.read_message(Heartbeat, body.value)
    now, lease = service.clock(), _lease(service)
    with service.database.writing() as session:
        row = leases.heartbeat(session, job_id, message, now=now, lease=lease)
        workers.note_alive(session, row.worker_id, now=now)
        cancel = row.cancel_requested_at is not None
        request_record.note(study_id=row.study_id)
    lease_s = lease.total_seconds()
    reply = HeartbeatReply(cancel=cancel, lease_s=lease_s, heartbeat_s=lease_s / HEARTBEATS_IN_A_LEASE)
    return JSONResponse(reply.model_dump(mode="json"))


@router.post(
    "/{job_id}/finish",
    response_model=FinishReply,
    responses=responses(400, 404, 409, 413, 415, 422, 426),
    openapi_extra=json_body(Finish),
)
def finish_job(job_id: JobId, body: BodyDependency, service: ServiceDependency) -> JSONResponse:
    """Write how the job ended, once: repeated by the same lease it changes nothing, any other is refused."""
    message = messages.read_message(Finish, body.value)
    with service.database.reading() as session:
        kind = queue.find_job(session, job_id).kind
    report = intake.read_report(kind, message)
    now = service.clock()
    with service.database.writing() as session:
        row, repeated = queue.finish(session, job_id, report.ending, now=now)
        if report.profile is not None and not repeated:
            intake.keep_profile(session, row, report.profile, now=now)
        if not repeated:
            audit.record(session, job_id, now=now)
        reply = FinishReply(status=row.status, repeated=repeated)
        request_record.note(study_id=row.study_id)
    # What was given back may be another's.
    service.bell.ring()
    # Studies get on after the worker has its answer; should this process die first, a sweep does it.
    then = BackgroundTask(progress.advance_after, service, job_id) if row.status in FINAL_STATUSES else None
    return JSONResponse(reply.model_dump(mode="json"), background=then)


def _greet(service: Service, message: Claim, caller: Caller) -> None:
    now = service.clock()
    with service.database.reading() as session:
        if workers.is_noted(session, message.worker, owner=caller.owner, now=now):
            return
    with service.database.writing() as session:
        workers.note_worker(session, message.worker, owner=caller.owner, now=now)


def _claim(service: Service, message: Claim, *, again: bool) -> Job | None:
    """One look; a claim that is repeated because its answer was lost gets the same job.

    Who looks `again` while it waits only reads where there is nothing.
    """
    now, lease = service.clock(), _lease(service)
    with service.database.reading() as session:
        held = None if again else leases.held_by(session, message.token)
        if held is not None:
            return _assignment(held, lease)
        if again and not leases.there_is_work(session, message.worker, now=now):
            return None
    try:
        with service.database.writing() as session:
            row = leases.claim(session, message, now=now, lease=lease)
            return None if row is None else _assignment(row, lease)
    except IntegrityError:
        raise StaleLeaseProblem(
            "the token of this claim was used for a job before: claim with a new one"
        ) from None


def _take_back(service: Service, job: Job) -> None:
    """Free the lease of a worker that went away while it was given the job; the attempt does not count."""
    ending = queue.Ending(job.token, Released(reason="the worker was gone before it heard of the job"))
    with suppress(StaleLeaseProblem), service.database.writing() as session:
        queue.finish(session, job.id, ending, now=service.clock())
    service.bell.ring()


def _assignment(row: JobRow, lease: timedelta) -> Job:
    lease_s = lease.total_seconds()
    return Job(
        id=row.id,
        kind=row.kind,
        attempt=row.attempts,
        max_attempts=row.max_attempts,
        token=row.lease_token or "",
        lease_s=lease_s,
        heartbeat_s=lease_s / HEARTBEATS_IN_A_LEASE,
        payload=row.payload,
        study_id=row.study_id,
    )


def _lease(service: Service) -> timedelta:
    return timedelta(seconds=service.settings.lease_seconds)
