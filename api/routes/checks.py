"""/v1/checks: how models were when `chimera ci` checked them, and which check was accepted last."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from fastapi.responses import JSONResponse

from api.access.auth import Caller, allow
from api.access.keys import Scope
from api.documents import checks
from api.routes.documents import add_reading, add_storing
from api.service import BaseDependency, ServiceDependency
from api.storage.tables import DocumentKind
from api.web.paging import DocumentCursor, Limit
from api.web.problems import responses
from api.web.schemas import CheckPage

router = APIRouter(prefix="/v1/checks", tags=["documents"])
_Text = Annotated[str | None, Query(max_length=200)]


@router.get("", response_model=CheckPage, responses=responses(404, 422))
def list_checks(
    *,
    caller: Annotated[Caller, Depends(allow(Scope.READ))],
    service: ServiceDependency,
    base: BaseDependency,
    model: _Text = None,
    project: _Text = None,
    branch: _Text = None,
    accepted: bool | None = None,
    mine: Annotated[bool, Query(description="Only what this key's owner sent.")] = False,
    cursor: DocumentCursor = None,
    limit: Limit = 50,
) -> JSONResponse:
    """List checks with their content, newest first."""
    wanted = checks.Wanted(model, project, branch, accepted, owner=caller.owner if mine else None)
    with service.database.reading() as session:
        return JSONResponse(checks.list_checks(session, wanted, cursor=cursor, limit=limit, base=base))


add_reading(router, DocumentKind.CHECK)
add_storing(router, DocumentKind.CHECK)
