"""Which requests come from where they should? From this host while there are no keys, and from own pages."""

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import BindError
from api.settings import Settings
from api.web import request_record
from api.web.handlers import problem_response
from api.web.headers import secure
from api.web.problems import ForbiddenProblem, InvalidProblem, Problem
from api.web.visit import Visit, begin_visit

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def check_bind(host: str, *, keys_are_required: bool = False) -> None:
    """Raise BindError unless `host` is a loopback address: without keys whoever reaches it is let in."""
    if not keys_are_required and not is_loopback(host):
        raise BindError(
            f"refusing to listen on {host}: without API keys everyone who reaches that address could read "
            "and create studies. Use --host 127.0.0.1, and from elsewhere `ssh -L 8000:127.0.0.1:8000 HOST`; "
            "or let everyone need a key: CHIMERA_REQUIRE_KEYS=true and `chimera key create`"
        )


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this machine alone."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _unreadable(scope: Scope) -> InvalidProblem | None:
    """NUL ends a text for one database, where it would match everything, and is refused by the other."""
    if "\0" in scope["path"] or b"%00" in scope.get("query_string", b""):
        return InvalidProblem("the address holds a NUL character (%00), which no text has: take it out")
    return None


class Guard:
    """Middleware that checks Host and Origin, and adds the security headers.

    A page elsewhere can make a browser on this host send requests here. Its Origin gives it away; where it
    points its own name at 127.0.0.1 (DNS rebinding), its Host does. Where every request needs a key, such a
    page has none, and any Host is answered.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.public = urlsplit(settings.public_url or "")
        self.any_host = settings.keys_are_required

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        client = scope.get("client")
        record = request_record.current()
        address = client[0] if client else "unknown"
        begin_visit(Visit(address=address, request_id=None if record is None else record.id))

        async def send_secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                secure(MutableHeaders(scope=message))
            await send(message)

        problem: Problem | None = self.refusal(scope["method"], Headers(scope=scope)) or _unreadable(scope)
        answer = self.app if problem is None else problem_response(problem)
        await answer(scope, receive, send_secured)

    def refusal(self, method: str, headers: Headers) -> ForbiddenProblem | None:
        """Why the request is refused, None when it is not."""
        host = headers.get("host", "")
        if not self.any_host and not self._is_ours(host):
            return ForbiddenProblem(
                f"the Host header {host[:100]!r} is not this service: use 127.0.0.1 or localhost, or set "
                "CHIMERA_PUBLIC_URL to the address that people use"
            )
        if method in SAFE_METHODS:
            return None
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "same-origin")
        if origin is not None and not self._same_origin(origin, host):
            return ForbiddenProblem(f"a page of {origin[:100]!r} may not change anything here")
        if site not in {"same-origin", "none"}:
            return ForbiddenProblem(f"a page of another site ({site[:20]}) may not change anything here")
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return is_loopback(name) or (bool(self.public.hostname) and name == self.public.hostname)

    def _same_origin(self, origin: str, host: str) -> bool:
        public = f"{self.public.scheme}://{self.public.netloc}"
        return origin.lower() in {f"http://{host}".lower(), f"https://{host}".lower(), public.lower()}
