"""POST /v1/plans: what should be run? Stores nothing."""

from fastapi import APIRouter
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from api import planning
from api.access.auth import Submitter
from api.service import ServiceDependency
from api.web.bodies import BodyDependency
from api.web.openapi import json_body
from api.web.problems import responses
from api.web.schemas import PlanAnswer
from tuner.request import PlanRequest, read_request

EXAMPLE = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}

router = APIRouter(prefix="/v1", tags=["plans"])


@router.post(
    "/plans",
    response_model=PlanAnswer,
    responses=responses(400, 413, 415, 422, 429),
    openapi_extra=json_body(PlanRequest, example=EXAMPLE),
)
async def make_plan(
    caller: Submitter,  # noqa: ARG001  # before the body is read
    body: BodyDependency,
    service: ServiceDependency,
) -> Response:
    """Plan without storing anything: the document that `chimera plan --json` prints."""
    request = await run_in_threadpool(read_request, body.value)
    service.charge("plans")

    plan = await service.effort.run(lambda: planning.plan(request, service))
    return Response(plan.content, media_type="application/json")
