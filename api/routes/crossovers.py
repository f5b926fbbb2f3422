"""POST /v1/crossovers: what do studies gain that share their devices? Stores nothing."""

from fastapi import APIRouter
from fastapi.responses import Response

from api.access.auth import Submitter
from api.crossovers import CrossoverRequest, predict
from api.service import ServiceDependency
from api.web.bodies import BodyDependency
from api.web.openapi import json_body
from api.web.problems import responses
from tuner.crossover import Crossover

router = APIRouter(prefix="/v1", tags=["studies"])


@router.post(
    "/crossovers",
    response_model=Crossover,
    responses=responses(400, 404, 409, 413, 415, 422, 429),
    openapi_extra=json_body(CrossoverRequest),
)
async def predict_crossover(
    caller: Submitter,  # noqa: ARG001  # before the body is read
    body: BodyDependency,
    service: ServiceDependency,
) -> Response:
    """Predict what jobs gain in turns on the same devices: one computes while another waits for gradients."""

    made = await service.effort.run(lambda: predict(body.value, service))
    return Response(made.content, media_type="application/json")
