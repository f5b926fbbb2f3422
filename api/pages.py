"""How does JSON become a page? Templates that escape everything they are given."""

from functools import cache
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

from api.assets import asset, plotly_style_ids
from api.problems import Problem
from api.reports.quantities import FILTERS


@cache
def templates() -> Environment:
    """The templates of the package."""
    environment = Environment(
        loader=PackageLoader("api", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    environment.globals |= {"asset": asset, "plotly_style_ids": plotly_style_ids}
    return environment


def render(template: str, **context: Any) -> str:
    """Fill a template; `base` is the path under which the service is seen, `standalone` makes one file."""
    return templates().get_template(template).render(**{"base": "", "standalone": False, **context})


def page(template: str, *, base: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page as an answer."""
    return HTMLResponse(render(template, base=base, **context), status_code=status)


def wants_page(request: Request) -> bool:
    """Whether a person's browser asks for a page, and not a program for the API."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return not path.startswith("/v1") and "text/html" in request.headers.get("accept", "")


def error_page(request: Request, problem: Problem) -> HTMLResponse:
    """A problem as a page."""
    base = str(request.scope.get("root_path", "")).rstrip("/")
    return page("problem.html", base=base, status=problem.status, problem=problem)
