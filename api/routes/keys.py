"""/v1/keys: who may do what. For admins; `chimera key` makes the first one."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from sqlalchemy.orm import Session

from api.access import audit, keys
from api.access.auth import Admin, allow
from api.access.keys import Scope
from api.service import BaseDependency, ServiceDependency
from api.web.bodies import BodyDependency
from api.web.idempotency import Answer, KeyHeader, Once
from api.web.openapi import json_body
from api.web.paging import Cursor, Limit
from api.web.problems import InvalidProblem, responses
from api.web.schemas import KeyEntry, KeyPage, KeyRequest, NewKey
from profiles.document import describe_faults

KeyId = Annotated[str, Path(max_length=100, description="The id of a key.")]

router = APIRouter(prefix="/v1/keys", tags=["keys"], dependencies=[Depends(allow(Scope.ADMIN))])


@router.post(
    "",
    status_code=201,
    response_model=NewKey,
    responses=responses(400, 409, 413, 415, 422),
    openapi_extra=json_body(KeyRequest, example={"name": "gpu-host-7", "scopes": ["work"]}),
)
def create_key(
    *,
    caller: Admin,
    body: BodyDependency,
    service: ServiceDependency,
    base: BaseDependency,
    key: KeyHeader = None,
) -> JSONResponse:
    """Make a key. Its secret is in this answer and nowhere else, not even in a repetition of the answer."""
    told: list[str] = []

    def store(session: Session, asked: KeyRequest) -> Answer:
        row, secret = keys.create_key(
            session,
            name=asked.name,
            owner=asked.owner or caller.owner,
            scopes=asked.scopes,
            created_by=caller.owner,
            now=service.clock(),
        )
        told.append(secret)
        return Answer(201, keys.key_entry(row) | {"key": None}, {"Location": f"{base}/v1/keys/{row.id}"})

    once = Once(service, caller.identity, key, body.fingerprint("POST /v1/keys"))
    answer = once.answer(lambda: _read_request(body.value), store)
    shown = answer.body | {"key": told[0] if told else None}
    return JSONResponse(shown, status_code=answer.status, headers=answer.headers)


@router.get("", response_model=KeyPage, responses=responses(422))
def list_keys(*, service: ServiceDependency, cursor: Cursor = None, limit: Limit = 50) -> JSONResponse:
    """List the keys, the newest first, revoked ones too; their secrets are not kept."""
    with service.database.reading() as session:
        return JSONResponse(keys.list_keys(session, cursor=cursor, limit=limit))


@router.get("/{key_id}", response_model=KeyEntry, responses=responses(404, 422))
def read_key(key_id: KeyId, service: ServiceDependency) -> JSONResponse:
    """Read a key, without its secret."""
    with service.database.reading() as session:
        return JSONResponse(keys.key_entry(keys.read_key(session, key_id)))


@router.delete("/{key_id}", status_code=204, responses=responses(404, 422))
def revoke_key(key_id: KeyId, service: ServiceDependency) -> Response:
    """End a key: requests with it are refused from now on. It stays in the list."""
    with service.database.writing() as session:
        keys.revoke_key(session, key_id, now=service.clock())
        audit.record(session, key_id, now=service.clock(), status=204)
    return Response(status_code=204)


def _read_request(value: object) -> KeyRequest:
    try:
        return KeyRequest.model_validate(value, strict=False)
    except ValidationError as error:
        raise InvalidProblem(describe_faults(error, "the request", value=value)) from None
