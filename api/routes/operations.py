"""What do operators and clients ask before anything else? Health, readiness, and what is known by name."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from api.access.auth import READING
from api.documents.catalogue import catalogue
from api.errors import DatabaseError
from api.service import ServiceDependency
from api.storage.database import current_revision
from api.web.problems import UnavailableProblem, responses
from api.web.schemas import Catalogue, Health, Readiness

router = APIRouter(tags=["operations"])


@router.get("/v1/catalogue", response_model=Catalogue, responses=responses(), dependencies=[READING])
def read_catalogue() -> JSONResponse:
    """List the models, accelerators, clusters, schedules and export formats that a request can name."""
    return JSONResponse(catalogue())


@router.get("/healthz", response_model=Health, responses=responses())
async def health() -> JSONResponse:
    """Say that the process runs."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=Readiness, responses=responses())
def readiness(service: ServiceDependency) -> JSONResponse:
    """Say that the process can answer: the database is there and its schema is the newest known."""
    try:
        revision = current_revision(service.database.engine)
    except DatabaseError as error:
        raise UnavailableProblem(str(error), headers={"Retry-After": "5"}) from None
    return JSONResponse({"status": "ready", "database": revision})
