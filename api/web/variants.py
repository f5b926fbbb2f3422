"""Which requests mean the same as another? HEAD is GET without its body; a slash at the end changes nothing.

Nor does it matter whether a proxy leaves the path under which it shows the service in the address.
Codings that a client names because it does not take them (`gzip;q=0`) are dropped, as if it had not.
"""

import re
from collections.abc import Container
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.web.addresses import base_of, path_below

_REFUSED = re.compile(rb";\s*q\s*=\s*0(\.0*)?\s*$", re.IGNORECASE)


class Variants:
    """Middleware that passes on what was meant. Nobody is redirected: who posts would lose the body."""

    def __init__(self, app: ASGIApp, *, own: Container[str]) -> None:
        """`own` are the first parts of the service's addresses."""
        self.app, self.own = app, own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and tell the scope of the server which route it was."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        meant = dict(scope)
        _drop_host(meant)
        self._drop_base(meant)
        _drop_slash(meant)
        _drop_refused(meant)
        if scope["method"] == "HEAD":
            meant["method"] = "GET"
            head = _WithoutBody(receive, send)
            receive, send = head.receive, head.send
        try:
            await self.app(meant, receive, send)
        finally:
            scope.update({name: meant[name] for name in ("route", "path_params") if name in meant})

    def _drop_base(self, scope: Scope) -> None:
        """A proxy may pass on the path under which it shows the service, or leave it out."""
        base = base_of(scope)
        if base and path_below(scope).startswith(f"{base}/") and base.split("/")[1] not in self.own:
            scope["path"] = path_below(scope)


class _WithoutBody:
    """Sends the status and headers of an answer alone; what would go on sending hears that nobody listens."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._over = False

    async def receive(self) -> Message:
        """What the client sent."""
        return {"type": "http.disconnect"} if self._over else await self._receive()

    async def send(self, message: Message) -> None:
        """The beginning, and the end with it."""
        if self._over:
            return
        self._over = True
        await self._send(message)
        await self._send({"type": "http.response.body", "body": b""})


def _drop_host(scope: Scope) -> None:
    """Some clients and proxies ask for a whole address, which any server has to understand."""
    raw = scope.get("raw_path") or b""
    if raw[:8].lower().startswith((b"http://", b"https://")):
        with suppress(ValueError):
            path = urlsplit(raw.decode("ascii")).path or "/"
            scope["path"] = base_of(scope) + unquote(path)


def _drop_slash(scope: Scope) -> None:
    path = path_below(scope)
    if len(path) > 1 and path.endswith("/"):
        scope["path"] = base_of(scope) + (path.rstrip("/") or "/")


def _drop_refused(scope: Scope) -> None:
    headers = scope["headers"]
    if any(name == b"accept-encoding" and b"q" in value for name, value in headers):
        scope["headers"] = [
            (name, _accepted(value) if name == b"accept-encoding" else value) for name, value in headers
        ]


def _accepted(codings: bytes) -> bytes:
    return b",".join(each for each in codings.split(b",") if not _REFUSED.search(each))
