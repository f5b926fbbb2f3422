"""/login and /logout: a person shows a key once, and the browser stays signed in."""

import re
import secrets
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from api.access import audit
from api.access.auth import CSRF_HEADER, why_a_key_is_needed
from api.access.keys import find_key
from api.access.sessions import COOKIE, begin_session, csrf_token, end_session, find_session, is_token_of
from api.service import BaseDependency, Service, ServiceDependency
from api.web.cookies import drop_cookie, read_cookie, set_cookie
from api.web.forms import read_form
from api.web.pages import page
from api.web.problems import ForbiddenProblem
from api.web.visit import current_visit

FORM_COOKIE = "chimera_form"
"""Ties the form to the browser that got it: a page elsewhere cannot sign a visitor in as somebody else."""
FORM_S = 3_600
TRIES_PER_MINUTE = TRIES_AT_ONCE = 10
_OWN_PATH = re.compile(r"/(?!/)[\x21-\x5b\x5d-\x7e]{0,2000}")
"""A path of this service: two slashes, or a backslash, would lead to another host."""

router = APIRouter(include_in_schema=False)

Next = Annotated[str, Query(alias="next", max_length=2_500)]
Form = Annotated[dict[str, str], Depends(read_form)]


@router.get("/login")
def show_login(
    *, request: Request, service: ServiceDependency, base: BaseDependency, following: Next = ""
) -> Response:
    """The form that takes a key; who is signed in goes on."""
    secret = read_cookie(request, name=COOKIE)
    with service.database.reading() as session:
        is_signed_in = find_session(session, secret, now=service.clock()) is not None
    if is_signed_in:
        return _go(own_path(following, base))
    return _form(request, service, base, following=following)


@router.post("/login")
def log_in(*, request: Request, form: Form, service: ServiceDependency, base: BaseDependency) -> Response:
    """Trade a key for a session, and go where the visitor was going."""
    current_visit().action = "log_in"
    following = form.get("next", "")
    if not _is_own_form(request, form):
        trouble = "This form was too old. Please try again."
        return _form(request, service, base, following=following, status=403, trouble=trouble)
    service.rates.charge("attempts to sign in", per_minute=TRIES_PER_MINUTE, burst=TRIES_AT_ONCE)
    cookie = _trade(service, form.get("key", "").strip(), before=read_cookie(request, name=COOKIE))
    if cookie is None:
        trouble = "This key is not known here, or it was revoked."
        return _form(request, service, base, following=following, status=401, trouble=trouble)
    answer = _go(own_path(following, base))
    most_s = round(3_600 * service.settings.session_hours)
    set_cookie(answer, request, service.settings, name=COOKIE, value=cookie, most_s=most_s)
    drop_cookie(answer, request, name=FORM_COOKIE)
    return answer


@router.post("/logout")
def log_out(*, request: Request, form: Form, service: ServiceDependency, base: BaseDependency) -> Response:
    """End the session of this browser, asked by its own page."""
    visit, secret = current_visit(), read_cookie(request, name=COOKIE)
    visit.action = "log_out"
    with service.database.reading() as session:
        key = find_session(session, secret, now=service.clock())
    if key is not None:
        if not is_token_of(secret, form.get("csrf") or request.headers.get(CSRF_HEADER, "")):
            raise ForbiddenProblem("only a page of this service signs a browser out: use its button")
        visit.owner, visit.identity, visit.key_name = key.owner, key.id, key.name
        with service.database.writing() as session:
            end_session(session, secret)
            audit.record(session, key.id, now=service.clock())
    answer = _go(f"{base}/login")
    drop_cookie(answer, request, name=COOKIE)
    return answer


def own_path(wanted: str, base: str) -> str:
    """Where to go: a path of this service under `base`, its first page for anything else."""
    is_own = _OWN_PATH.fullmatch(wanted) and f"{wanted}/".startswith(f"{base}/")
    is_door = wanted.removeprefix(base).partition("?")[0] in {"/login", "/logout"}
    return wanted if is_own and not is_door else f"{base}/"


def _trade(service: Service, secret: str, *, before: str) -> str | None:
    """The cookie of a new session, which ends the one before; None for a key that opens nothing."""
    now, visit = service.clock(), current_visit()
    with service.database.reading() as session:
        key = find_key(session, secret)
    if key is None or key.revoked_at is not None:
        audit.record_refusal(service, None if key is None else key.id, status=401)
        return None
    visit.owner, visit.identity, visit.key_name = key.owner, key.id, key.name
    with service.database.writing() as session:
        end_session(session, before)
        cookie = begin_session(session, key, now=now, hours=service.settings.session_hours)
        audit.record(session, key.id, now=now)
    return cookie


def _form(
    request: Request,
    service: Service,
    base: str,
    *,
    following: str,
    status: int = 200,
    trouble: str = "",
) -> Response:
    cookie = read_cookie(request, name=FORM_COOKIE) or secrets.token_urlsafe(32)
    answer = page(
        "login.html",
        base=base,
        status=status,
        following=own_path(following, base),
        token=csrf_token(cookie),
        trouble=trouble,
        needed=why_a_key_is_needed(service) is not None,
        scripts=(),
    )
    set_cookie(answer, request, service.settings, name=FORM_COOKIE, value=cookie, most_s=FORM_S)
    return answer


def _is_own_form(request: Request, form: dict[str, str]) -> bool:
    """Whether the form came from here; a program, which no page can make send anything, needs none."""
    if "origin" not in request.headers and "sec-fetch-site" not in request.headers:
        return True
    cookie = read_cookie(request, name=FORM_COOKIE)
    return bool(cookie) and is_token_of(cookie, form.get("csrf", ""))


def _go(path: str) -> RedirectResponse:
    return RedirectResponse(path, status_code=303, headers={"Cache-Control": "no-store"})
