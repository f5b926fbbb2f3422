"""Which problem does each error become?"""

import logging
from typing import Any
from uuid import uuid4

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DataError, DBAPIError, OperationalError, TimeoutError
from starlette.exceptions import HTTPException

from api.access import audit
from api.operations.metrics import DATABASE_ERRORS
from api.web import request_record
from api.web.addresses import path_below
from api.web.etags import AlreadyAnswered
from api.web.headers import secure
from api.web.methods import methods_of
from api.web.pages import error_page, is_visit, sign_in_page, wants_page
from api.web.problems import (
    BY_STATUS,
    MEDIA_TYPE,
    ConflictProblem,
    DefectProblem,
    ForbiddenProblem,
    InvalidProblem,
    NotAllowedProblem,
    NotFoundProblem,
    Problem,
    UnauthorizedProblem,
    UnavailableProblem,
    WorkerVersionProblem,
)
from api.web.visit import current_visit
from profiles.errors import DocumentError
from tuner.errors import ProtocolError, TooLongError, TunerError
from tuner.exports.errors import NothingChosenError, UnknownFormatError

logger = logging.getLogger("chimera.api")

_MEANINGS: tuple[tuple[type[Exception], type[Problem]], ...] = (
    (UnknownFormatError, NotFoundProblem),
    (NothingChosenError, ConflictProblem),
    (TooLongError, ConflictProblem),
    (ProtocolError, WorkerVersionProblem),
    (Exception, InvalidProblem),
)
"""What errors of the packages below mean to a client; the first that matches."""


def install(app: FastAPI) -> None:
    """Answer every error of `app` with a problem document, or a page where a browser asked for a page."""
    for kind in (
        Problem,
        TunerError,
        DocumentError,
        RequestValidationError,
        HTTPException,
        DBAPIError,
        TimeoutError,
    ):
        app.add_exception_handler(kind, _answer)
    app.add_exception_handler(AlreadyAnswered, _answer_again)
    app.add_exception_handler(Exception, _answer_defect)


def problem_response(problem: Problem) -> Response:
    """The problem as application/problem+json."""
    return JSONResponse(
        problem.document(), status_code=problem.status, headers=problem.headers, media_type=MEDIA_TYPE
    )


def as_problem(error: Exception) -> Problem:
    """The problem that an expected error stands for; anything unexpected is a defect, and is logged."""
    match error:
        case Problem():
            return error
        case TunerError() | DocumentError():
            return next(problem for kind, problem in _MEANINGS if isinstance(error, kind))(str(error))
        case RequestValidationError():
            return InvalidProblem("; ".join(_fault(fault) for fault in error.errors()))
        case HTTPException():
            return _from_status(error)
        case DataError() if "NUL" in str(error.orig):
            return InvalidProblem("the request holds a NUL character (%00), which no text has: take it out")
        case OperationalError() | TimeoutError():
            return _without_database(error)
        case DBAPIError() if error.connection_invalidated:
            return _without_database(error)
        case _:
            return _defect(error)


def _without_database(error: Exception) -> Problem:
    DATABASE_ERRORS.inc()
    logger.error("the database does not answer: %s", " ".join(str(error).split()))
    return UnavailableProblem("the database does not answer: try again", headers={"Retry-After": "5"})


def _answer(request: Request, error: Exception) -> Response:
    problem = _of_method(request, as_problem(error))
    _note_refusal(request, problem)
    if not wants_page(request):
        return problem_response(problem)
    if isinstance(problem, UnauthorizedProblem) and is_visit(request):
        return sign_in_page(request)
    return error_page(request, problem)


async def _answer_again(_: Request, there: Exception) -> Response:
    if not isinstance(there, AlreadyAnswered):
        raise there
    return there.response()


def _note_refusal(request: Request, problem: Problem) -> None:
    """Have the audit log tell of what a known caller was not let change."""
    if (
        isinstance(problem, ForbiddenProblem)
        and request.method != "GET"
        and current_visit().owner is not None
    ):
        target = next(iter(request.path_params.values()), None)
        audit.record_refusal(request.app.state.service, target, status=problem.status)


def _of_method(request: Request, problem: Problem) -> Problem:
    """The problem; where the method was wrong, with all that the address takes, whichever route refused."""
    if problem.status not in {NotFoundProblem.status, NotAllowedProblem.status}:
        return problem
    taken = methods_of(path_below(request.scope), request.app.openapi())
    if not taken or request.method in taken:
        return problem
    return NotAllowedProblem(
        f"this address does not take {request.method[:20]}, only {' and '.join(taken)}",
        headers={"Allow": _with_head(", ".join(taken))},
    )


def _answer_defect(request: Request, error: Exception) -> Response:
    response = _answer(request, error)
    # This handler stands outside the middleware that adds these elsewhere.
    secure(response.headers)
    if record := request_record.current():
        response.headers[request_record.HEADER] = record.id
    return response


def _defect(error: Exception) -> Problem:
    identifier = uuid4().hex
    logger.error("defect %s: %s", identifier, type(error).__name__, exc_info=error)
    record = request_record.current()
    if record is not None:
        record.told = True
    return DefectProblem(
        f"something unexpected happened; the log of the service tells what under {identifier}",
        id=identifier,
        request_id=record.id if record is not None else None,
    )


def _from_status(error: HTTPException) -> Problem:
    kind = BY_STATUS.get(error.status_code, InvalidProblem)
    details = {404: "there is nothing at this address", 405: "this address does not take this method"}
    detail = details.get(error.status_code, str(error.detail))
    headers = dict(error.headers or {})
    if "Allow" in headers:
        headers["Allow"] = _with_head(headers["Allow"])
    return kind(detail, headers=headers)


def _with_head(allowed: str) -> str:
    """Wherever GET is taken HEAD is (`api.web.variants`)."""
    return allowed.replace("GET", "GET, HEAD")


def _fault(fault: dict[str, Any]) -> str:
    place = ".".join(str(part) for part in fault["loc"])
    return f"{place[:200]}: {fault['msg']}"
