"""/v1/audit: who changed what, and who was not let? For admins."""

import re
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse
from pydantic import AwareDatetime, BeforeValidator

from api.access import audit
from api.access.auth import allow
from api.access.keys import Scope
from api.service import ServiceDependency
from api.web.paging import Cursor, Limit
from api.web.problems import responses
from api.web.schemas import AuditPage

router = APIRouter(prefix="/v1/audit", tags=["keys"], dependencies=[Depends(allow(Scope.ADMIN))])

FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[Tt ]")


def _written_out(value: object) -> object:
    """Refuse a bare number, which would be read as seconds since 1970."""
    if isinstance(value, str) and not _ISO.match(value):
        raise ValueError("must be a moment with its zone, such as 2026-03-01T12:00:00Z")
    return value


Moment = Annotated[AwareDatetime | None, BeforeValidator(_written_out)]
Exactly = Annotated[str | None, Query(max_length=200)]


@router.get("", response_model=AuditPage, responses=responses(422))
def list_audit(
    *,
    service: ServiceDependency,
    owner: Exactly = None,
    key_id: Exactly = None,
    action: Annotated[
        str | None, Query(max_length=60, description="An operation, as OpenAPI names it.")
    ] = None,
    target: Annotated[str | None, Query(max_length=100, description="What was changed: its id.")] = None,
    after: Annotated[Moment, Query(description="Not before this moment, with its zone.")] = None,
    before: Annotated[Moment, Query(description="Before this moment, with its zone.")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> JSONResponse:
    """List what was changed, and by whom, the newest first; also what was refused for want of rights."""
    wanted = audit.Filter(owner, key_id, action, target, _storable(after), _storable(before))
    with service.database.reading() as session:
        return JSONResponse(audit.list_entries(session, wanted, cursor=cursor, limit=limit))


def _storable(moment: datetime | None) -> datetime | None:
    """The moment, or the nearest that databases know: nothing happened beyond."""
    return None if moment is None else min(max(moment, FIRST), LAST)
