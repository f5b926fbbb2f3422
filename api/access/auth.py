"""Who is calling, and may they? By a key, by a session in a cookie, or as nobody while there are no keys."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy import update

from api.access.guard import SAFE_METHODS, is_loopback
from api.access.keys import Scope, find_key, granted, people_have_keys
from api.access.sessions import COOKIE, csrf_token, find_session, is_token_of
from api.service import Service, ServiceDependency
from api.storage.tables import ApiKey
from api.web import request_record
from api.web.cookies import read_cookie
from api.web.problems import ForbiddenProblem, UnauthorizedProblem
from api.web.visit import current_visit

LOCAL_CALLER = "local"
"""The owner of what is made without a key, by someone on this host."""
_NOTED_EVERY = timedelta(minutes=1)
_KEYLESS = frozenset({Scope.READ, Scope.SUBMIT})
CSRF_HEADER = "X-CSRF-Token"
_HOW = "send it as `Authorization: Bearer KEY`; `chimera key create` makes one on the host of the service"


@dataclass(frozen=True)
class Caller:
    """Who is calling."""

    owner: str
    """Under which name things are made."""
    identity: str
    """The id of the key, under which requests are remembered."""
    scopes: frozenset[Scope]

    def require_own(self, owner: str, *, what: str) -> None:
        """Raise ForbiddenProblem unless it is the caller's own, or the caller may do everything."""
        if owner != self.owner and Scope.ADMIN not in self.scopes:
            raise ForbiddenProblem(
                f"{what} belongs to {owner!r}, and this key to {self.owner!r}: its owner or a key with scope "
                "admin may do this"
            )


def authenticate(request: Request, service: ServiceDependency) -> Caller:
    """The caller of a request, who is noted as its visitor.

    Raises UnauthorizedProblem for a key that is missing, unknown or revoked, ForbiddenProblem where a session
    would change something without the token of its pages.
    """
    header = request.headers.get("authorization")
    key = _in_session(request, service) if header is None else _in_header(header, service)
    caller = _without_key(service) if key is None else Caller(key.owner, key.id, granted(key.scopes))
    visit = current_visit()
    visit.owner, visit.identity = caller.owner, caller.identity
    visit.key_name = None if key is None else key.name
    visit.action = request.scope["route"].name
    request_record.note(caller=caller.identity)
    if header is None and key is not None:
        _require_own_page(request)
    if key is not None:
        _note_use(service, key)
    return caller


def _in_header(header: str, service: Service) -> ApiKey:
    scheme, _, secret = header.partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise UnauthorizedProblem(f"the Authorization header holds no bearer key: {_HOW}")
    with service.database.reading() as session:
        key = find_key(session, secret.strip())
    if key is None:
        raise UnauthorizedProblem(f"the key is not known here: {_HOW}")
    if key.revoked_at is not None:
        raise UnauthorizedProblem(
            f"the key {key.id} was revoked on {key.revoked_at:%Y-%m-%d}: use another one"
        )
    return key


def _in_session(request: Request, service: Service) -> ApiKey | None:
    """The key that the browser once showed; None without a session, and once it has ended."""
    secret = read_cookie(request, name=COOKIE)
    if not secret:
        return None
    with service.database.reading() as session:
        key = find_session(session, secret, now=service.clock())
    current_visit().csrf_token = csrf_token(secret) if key is not None else None
    return key


def _require_own_page(request: Request) -> None:
    """Raise ForbiddenProblem where a session would change something, and no page of it asks."""
    token = request.headers.get(CSRF_HEADER, "")
    if request.method not in SAFE_METHODS and not is_token_of(read_cookie(request, name=COOKIE), token):
        raise ForbiddenProblem(
            f"a browser that is signed in changes something only with the {CSRF_HEADER} of its own page: "
            "reload the page; programs send their key as `Authorization: Bearer KEY` and no cookie"
        )


def allow(scope: Scope) -> Callable[..., Awaitable[Caller]]:
    """A dependency that gives the caller, and raises ForbiddenProblem without that scope."""

    # Not worth a thread: it looks at what is there.
    async def caller_with_scope(caller: Annotated[Caller, Depends(authenticate)]) -> Caller:
        if scope in caller.scopes:
            return caller
        has = ", ".join(name for name in Scope if name in caller.scopes)
        if caller.identity == LOCAL_CALLER:
            raise UnauthorizedProblem(
                f"this needs a key with scope {scope}, without one there is {has}: {_HOW}"
            )
        raise ForbiddenProblem(f"this needs scope {scope}, and the key {caller.identity} has {has}")

    return caller_with_scope


def why_a_key_is_needed(service: Service) -> str | None:
    """Why requests without a key are refused; None while they are not."""
    if service.settings.keys_are_required or not is_loopback(service.settings.host):
        return "this service answers to holders of a key"
    if service.settings.require_keys is None:
        with service.database.reading() as session:
            if people_have_keys(session):
                return "since its first key was made, this service needs one"
    return None


READING = Depends(allow(Scope.READ))
"""For routes that need not know who reads."""
WORKING = Depends(allow(Scope.WORK))
Submitter = Annotated[Caller, Depends(allow(Scope.SUBMIT))]
Worker = Annotated[Caller, Depends(allow(Scope.WORK))]
Admin = Annotated[Caller, Depends(allow(Scope.ADMIN))]


def _without_key(service: Service) -> Caller:
    reason = why_a_key_is_needed(service)
    if reason is not None:
        raise UnauthorizedProblem(f"{reason}: {_HOW}")
    return Caller(LOCAL_CALLER, LOCAL_CALLER, _KEYLESS)


def _note_use(service: Service, key: ApiKey) -> None:
    now = service.clock()
    if key.last_used_at is None or key.last_used_at < now - _NOTED_EVERY:
        # This column alone: what was read above may be old by now, as when the key was just revoked.
        with service.database.writing() as session:
            session.execute(
                update(ApiKey)
                .where(ApiKey.id == key.id)
                .values(last_used_at=now)
                .execution_options(synchronize_session=False)
            )
