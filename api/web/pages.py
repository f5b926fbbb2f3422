"""When does a person get a page instead of a document, and what is on it when something is wrong?"""

from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse

from api.web.addresses import base_of, path_below
from api.web.problems import Problem
from api.web.rendering import render


def page(template: str, *, base: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page as an answer."""
    return HTMLResponse(render(template, base=base, **context), status_code=status)


def wants_page(request: Request) -> bool:
    """Whether a person's browser asks for a page, and not a program for the API."""
    return not path_below(request.scope).startswith("/v1") and "text/html" in request.headers.get(
        "accept", ""
    )


def is_visit(request: Request) -> bool:
    """Whether a person goes to the page; a script that fetches it could do nothing with another one."""
    return request.method == "GET" and request.headers.get("sec-fetch-mode", "navigate") == "navigate"


def error_page(request: Request, problem: Problem) -> HTMLResponse:
    """A problem as a page."""
    base = base_of(request.scope)
    answer = page("problem.html", base=base, status=problem.status, problem=problem)
    answer.headers.update(problem.headers)
    return answer


def sign_in_page(request: Request) -> RedirectResponse:
    """The way to the form that takes a key, and back here."""
    base = base_of(request.scope)
    query = request.url.query
    wanted = base + request.url.path.removeprefix(base) + (f"?{query}" if query else "")
    address = f"{base}/login?{urlencode({'next': wanted})}"
    return RedirectResponse(address, status_code=303, headers={"Cache-Control": "no-store"})
