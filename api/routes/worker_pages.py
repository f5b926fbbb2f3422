"""/workers: who measures, what waits and since when, and what failed and why."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from api.access.auth import Caller, allow
from api.access.keys import Scope
from api.jobs import overview, workers
from api.service import BaseDependency, Service, ServiceDependency
from api.web.pages import page
from api.web.paging import Cursor
from tuner.messages import JobStatus

WORKERS_ON_A_PAGE = 50
JOBS_SHOWN = 50
FAILURES_SHOWN = 20

Reader = Annotated[Caller, Depends(allow(Scope.READ))]
Show = Annotated[Literal["connected", "silent"], Query()]

router = APIRouter(include_in_schema=False)


@router.get("/workers")
def show_workers(
    *,
    caller: Reader,
    request: Request,
    service: ServiceDependency,
    base: BaseDependency,
    show: Show = "connected",
    cursor: Cursor = None,
) -> HTMLResponse:
    """Workers and the queue; the state in it is fetched again while it is looked at."""
    address = service.settings.public_url or str(request.base_url).rstrip("/")
    context = _state(service, caller, base=base, show=show, cursor=cursor)
    return page("workers.html", base=base, address=address, scripts=("workers.js",), **context)


@router.get("/parts/workers")
def show_state(
    *,
    caller: Reader,
    service: ServiceDependency,
    base: BaseDependency,
    show: Show = "connected",
    cursor: Cursor = None,
) -> HTMLResponse:
    """The state alone."""
    context = _state(service, caller, base=base, show=show, cursor=cursor)
    return page("workers_state.html", base=base, **context)


def _state(service: Service, caller: Caller, *, base: str, show: str, cursor: str | None) -> dict[str, Any]:
    now = service.clock()
    with service.database.reading() as session:
        present, silent = overview.count_workers(session, now=now)
        found = workers.list_workers(
            session, now=now, connected=show == "connected", cursor=cursor, limit=WORKERS_ON_A_PAGE
        )
        kinds = overview.overview(session, now=now)
        waiting = overview.waiting_jobs(session, limit=JOBS_SHOWN, base=base, now=now)
        running = overview.running_jobs(session, limit=JOBS_SHOWN, base=base)
        failed = overview.failed_jobs(session, limit=FAILURES_SHOWN, base=base)

    def ago(moment: str | datetime) -> float:
        at = moment if isinstance(moment, datetime) else datetime.fromisoformat(moment)
        return (now - at).total_seconds()

    def may_cancel(job: dict[str, Any]) -> bool:
        owns = job["created_by"] == caller.owner or Scope.ADMIN in caller.scopes
        return owns and Scope.SUBMIT in caller.scopes and not job["cancel_requested_at"]

    return {
        "present": present,
        "silent": silent,
        "show": show,
        "cursor": cursor,
        "workers": found,
        "kinds": kinds,
        "waiting": waiting,
        "running": running,
        "failed": failed,
        "total": {state: sum(each.counts[state] for each in kinds) for state in JobStatus},
        "oldest": min((each.oldest for each in kinds if each.oldest), default=None),
        "ago": ago,
        "may_cancel": may_cancel,
    }
