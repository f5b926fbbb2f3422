"""/crossovers?studies=: the page on which studies take turns on the same devices."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from api.access.auth import READING
from api.crossovers import picture
from api.reports.crossover import crossover_page
from api.service import BaseDependency, Service, ServiceDependency
from api.studies import store
from api.web.pages import page
from api.web.problems import Problem, TooManyProblem
from tuner.crossover import MOST_JOBS
from tuner.errors import TunerError

router = APIRouter(include_in_schema=False)


@router.get("/crossovers", dependencies=[READING])
async def show_crossover(
    service: ServiceDependency,
    base: BaseDependency,
    studies: Annotated[list[str] | None, Query(max_length=50)] = None,
) -> HTMLResponse:
    """Two to eight studies, between commas or one by one; what keeps them from sharing is said in words."""
    ids = [name.strip() for part in studies or [] for name in part.split(",") if name.strip()]

    def work() -> HTMLResponse:
        context: dict[str, Any] = {"told": None}
        status, trouble = 200, None
        if ids:
            try:
                context = crossover_page(*picture({"studies": ids}, service))
                context["names"] = _names(service, ids)
            except TooManyProblem:
                raise
            except Problem as problem:
                status, trouble = problem.status, problem.detail
            except TunerError as error:
                status, trouble = 422, str(error)
        return page(
            "crossover.html", base=base, status=status, ids=ids, trouble=trouble, most=MOST_JOBS, **context
        )

    return await service.effort.run(work) if ids else work()


def _names(service: Service, ids: list[str]) -> list[str]:
    """What people call the studies."""
    with service.database.reading() as session:
        found = {name: store.find_study(session, name) for name in dict.fromkeys(ids)}
        return [found[name].name or found[name].model for name in ids]
