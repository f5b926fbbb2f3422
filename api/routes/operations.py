"""What do operators and clients ask before anything else? Health, readiness, counts, and what has a name."""

import logging
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from sqlalchemy.exc import SQLAlchemyError

from api.access.auth import READING
from api.documents.catalogue import catalogue
from api.errors import DatabaseError
from api.operations.figures import Scrape
from api.operations.inquiry import Inquiry
from api.operations.readiness import MOST_WAITED_S
from api.service import ServiceDependency
from api.web.problems import UnavailableProblem, responses
from api.web.schemas import Catalogue, Health, Readiness

logger = logging.getLogger("chimera.api")

router = APIRouter(tags=["operations"])

_SCRAPED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/plain": {"schema": {"type": "string"}}},
        "description": "Prometheus' text format.",
    }
}


@router.get("/v1/catalogue", response_model=Catalogue, responses=responses(), dependencies=[READING])
def read_catalogue() -> JSONResponse:
    """List the models, accelerators, clusters, schedules and export formats that a request can name."""
    return JSONResponse(catalogue())


@router.get("/healthz", response_model=Health, responses=responses())
async def health() -> JSONResponse:
    """Say that the process runs."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=Readiness, responses=responses())
async def readiness(request: Request, service: ServiceDependency) -> JSONResponse:
    """Say that the process can answer, or with 503 what keeps it from that and what to do.

    The database is there, its schema is the one of this release, and it can be written.
    """
    inquiry: Inquiry[str] = request.app.state.readiness
    try:
        if service.bell.closed:
            raise DatabaseError("the service is stopping: ask the next one")
        revision = await inquiry.answer(most_s=MOST_WAITED_S)
    except DatabaseError as error:
        raise _not_ready(str(error)) from None
    except (SQLAlchemyError, TimeoutError):
        raise _not_ready(
            f"the database has not answered for {MOST_WAITED_S:.0f} s: look whether it is up, and whether "
            "something holds its locks"
        ) from None
    return JSONResponse({"status": "ready", "database": revision})


@router.get(
    "/metrics", response_class=PlainTextResponse, responses=responses() | _SCRAPED, dependencies=[READING]
)
async def metrics(request: Request) -> Response:
    """Show the counts of this process and the figures of the database, in Prometheus' text format.

    Where the database does not answer, `chimera_database_up` is 0 and its figures are missing.
    """
    inquiry: Inquiry[list[Metric]] = request.app.state.figures
    try:
        figures = await inquiry.answer(most_s=MOST_WAITED_S)
    except (SQLAlchemyError, TimeoutError, OSError):
        figures = None
    return PlainTextResponse(
        generate_latest(Scrape(figures)), media_type="text/plain; version=0.0.4; charset=utf-8"
    )


def _not_ready(why: str) -> UnavailableProblem:
    logger.warning("not ready: %s", why)
    return UnavailableProblem(why, headers={"Retry-After": "5"})
