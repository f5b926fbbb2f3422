"""POST /v1/validations: could this be asked? Plans nothing and stores nothing."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from api.access.auth import Submitter
from api.routes.plans import EXAMPLE
from api.service import ServiceDependency
from api.studies.validation import validate
from api.web.bodies import BodyDependency
from api.web.openapi import json_body
from api.web.problems import responses
from api.web.study_schemas import StudyRequest, Validation

router = APIRouter(prefix="/v1", tags=["studies"])


@router.post(
    "/validations",
    response_model=Validation,
    responses=responses(400, 413, 415, 422),
    openapi_extra=json_body(StudyRequest, example=EXAMPLE),
)
def validate_request(caller: Submitter, body: BodyDependency, service: ServiceDependency) -> JSONResponse:
    """Check the body of a study without making it: 422 in the words that making it would answer with."""
    return JSONResponse(validate(body.value, service, caller=caller.owner))
