"""/: the form and the list of studies; /parts/studies brings rows of it up to date."""

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from api.access.auth import READING
from api.documents.catalogue import catalogue
from api.jobs import workers
from api.service import BaseDependency, Service, ServiceDependency
from api.storage.tables import FINAL, Study, StudyStatus
from api.studies import store as studies
from api.studies.waiting import waiting_for
from api.web.pages import page
from api.web.paging import Cursor
from tuner.messages import JobKind

STUDIES_ON_A_PAGE = 25
SCRIPTS = ("form_request.js", "form_check.js", "form.js", "studies.js")

router = APIRouter(include_in_schema=False)


@router.get("/", dependencies=[READING])
def show_index(
    *,
    service: ServiceDependency,
    base: BaseDependency,
    name: Annotated[str, Query(max_length=200)] = "",
    status: Annotated[str, Query(max_length=20)] = "",
    cursor: Cursor = None,
) -> HTMLResponse:
    """The form and the newest studies; `name` is part of a study's name or of its model's."""
    wanted = StudyStatus(status) if status in set(StudyStatus) else None
    with service.database.reading() as session:
        found = studies.list_studies(
            session,
            status=wanted,
            text=name.strip() or None,
            cursor=cursor,
            limit=STUDIES_ON_A_PAGE,
            base=base,
            now=service.clock(),
        )
        pools = _pools(session, service)
    return page(
        "index.html",
        base=base,
        studies=found,
        name=name,
        standing=wanted.value if wanted else "",
        statuses=list(StudyStatus),
        final={each.value for each in FINAL},
        cursor=cursor,
        catalogue=catalogue(),
        pools=pools,
        scripts=SCRIPTS,
    )


@router.get("/parts/studies", dependencies=[READING])
def show_rows(
    service: ServiceDependency, base: BaseDependency, ids: Annotated[str, Query(max_length=1_000)] = ""
) -> HTMLResponse:
    """The rows of a few studies as they stand now, between commas."""
    named = list(dict.fromkeys(ids.split(",")))[:STUDIES_ON_A_PAGE]
    with service.database.reading() as session:
        found = [study for name in named if (study := session.get(Study, name))]
        waits = waiting_for(session, found, now=service.clock())
        rows = [studies.study_entry(study, base=base, waits=waits) for study in found]
    return page("study_rows.html", base=base, rows=rows, final={each.value for each in FINAL})


def _pools(session: Session, service: Service) -> list[dict[str, Any]]:
    """Where trials could run now: the pools of connected workers, and what those have."""
    devices: dict[str, Counter[str]] = {}
    for worker in workers.connected(session, now=service.clock()):
        if JobKind.TRIAL in worker.kinds:
            for pool in worker.pools:
                has = devices.setdefault(pool, Counter())
                has.update({group.accelerator: group.count for group in worker.devices})
    return [
        {"name": name, "devices": ", ".join(f"{count:,} × {kind}" for kind, count in sorted(has.items()))}
        for name, has in sorted(devices.items())
    ]
