"""/compare: the page on which studies stand side by side."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session

from api.access.auth import READING
from api.reports.comparison import LETTERS, MOST, Side, comparison, side
from api.service import BaseDependency, ServiceDependency
from api.storage.tables import Study
from api.studies import store as studies
from api.studies.outcomes import as_tuning
from api.studies.waiting import waiting_for
from api.web.pages import page
from tuner.plan import Plan

_SHOWN = 80
_MOST_NAMED = 50

router = APIRouter(include_in_schema=False)


@router.get("/compare", dependencies=[READING])
def compare_studies(
    service: ServiceDependency,
    base: BaseDependency,
    ids: Annotated[list[str] | None, Query(max_length=_MOST_NAMED)] = None,
) -> HTMLResponse:
    """Up to four studies: `ids` holds their ids, between commas or one by one."""
    named = [name.strip() for part in ids or [] for name in part.split(",")]
    named = [name for name in dict.fromkeys(named) if name]
    with service.database.reading() as session:
        found = {name: study for name in named[:_MOST_NAMED] if (study := studies.look_for(session, name))}
        waits = waiting_for(session, list(found.values()), now=service.clock())
        shown = list(found.values())[:MOST]
        sides = [
            _side(session, study, letter=letter, entry=studies.study_entry(study, base=base, waits=waits))
            for letter, study in zip(LETTERS, shown, strict=False)
        ]
    told: dict[str, Any] = comparison(sides) if len(sides) > 1 else {"sides": sides}
    unknown = [name[:_SHOWN] for name in named[:_MOST_NAMED] if name not in found]
    return page(
        "compare.html",
        base=base,
        status=404 if named and not sides else 200,
        unknown=unknown,
        left_out=len(found) - len(sides),
        most=MOST,
        **told,
    )


def _side(session: Session, study: Study, *, letter: str, entry: dict[str, Any]) -> Side:
    plan = Plan.model_validate(study.plan) if study.plan is not None else None
    tuning = as_tuning(session, study, plan) if plan is not None else None
    return side(letter, entry | {"request": study.request}, plan=plan, tuning=tuning)
