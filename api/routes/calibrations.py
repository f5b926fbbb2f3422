"""/v1/calibrations: what measurements taught, for plans that name one."""

from collections.abc import Callable
from typing import Any

from fastapi.responses import JSONResponse

from api.access.auth import Admin, Caller
from api.documents import calibrations
from api.documents import store as documents
from api.documents.calibrations import FitRequest
from api.routes.documents import THERE, reading_routes
from api.service import BaseDependency, Service, ServiceDependency
from api.storage.tables import DocumentKind
from api.web.bodies import Body, BodyDependency
from api.web.deadline import current_deadline
from api.web.idempotency import KeyHeader, Once
from api.web.openapi import json_body
from api.web.problems import responses
from api.web.schemas import StoredDocumentMessage
from profiles.calibration import Calibration

FIT_S = 180.0
"""A fit may take so much longer than other answers."""
EXAMPLE = {"measurements": ["chimera-sc21"]}

router = reading_routes(DocumentKind.CALIBRATION)


@router.post(
    "",
    status_code=201,
    response_model=StoredDocumentMessage,
    responses=responses(400, 409, 413, 415, 422) | {200: THERE},
    openapi_extra=json_body(Calibration),
)
def store_calibration(
    *,
    caller: Admin,
    body: BodyDependency,
    service: ServiceDependency,
    base: BaseDependency,
    key: KeyHeader = None,
) -> JSONResponse:
    """Keep a calibration that `chimera score` saved, once the measurements it was fitted on are here."""
    return _kept(calibrations.check, caller, body, service=service, base=base, key=key)


@router.post(
    "/fit",
    status_code=201,
    response_model=StoredDocumentMessage,
    responses=responses(400, 409, 413, 415, 422, 429) | {200: THERE},
    openapi_extra=json_body(FitRequest, example=EXAMPLE),
)
async def fit_calibration(
    *,
    caller: Admin,
    body: BodyDependency,
    service: ServiceDependency,
    base: BaseDependency,
    key: KeyHeader = None,
) -> JSONResponse:
    """Fit a calibration on measurements that are here, and keep it: from then on plans may name it."""
    current_deadline().extend(FIT_S)
    return await service.effort.run(
        lambda: _kept(calibrations.fit, caller, body, service=service, base=base, key=key, longer_s=FIT_S)
    )


def _kept(
    make: Callable[[Any, Service], Calibration],
    caller: Caller,
    body: Body,
    *,
    service: Service,
    base: str,
    key: str | None,
    longer_s: float = 0.0,
) -> JSONResponse:
    """Store what is made of a body, outside a transaction, and answer with it."""
    fingerprint = body.fingerprint(f"POST /v1/calibrations {make.__name__}")
    once = Once(service, caller.identity, key, fingerprint, longer_s=longer_s)
    answer = once.answer(
        lambda: make(body.value, service),
        lambda session, document: documents.store_document(
            session,
            document,
            kind=DocumentKind.CALIBRATION,
            caller=caller.owner,
            now=service.clock(),
            base=base,
        ),
    )
    return JSONResponse(answer.body, status_code=answer.status, headers=answer.headers)
