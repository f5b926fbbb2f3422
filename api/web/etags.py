"""Does the client have this answer already? Each answer of the interface is named by its content."""

import hashlib

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.web.visit import current_visit

_COMPRESSED = "-gzip"
"""The same content in another encoding is another answer: a strong tag tells them apart."""


class NotModified(Exception):  # noqa: N818  # it is no error
    """The client has it already; raised before anything is read that was needed to say it again."""


def require_news(headers: Headers, version: str) -> None:
    """Name the present answer by `version`, which changes with it; raises NotModified where it is known."""
    tag = hashlib.sha256(version.encode()).hexdigest()[:32]
    current_visit().tag = tag
    if _is_known(headers, tag):
        raise NotModified


class ETags:
    """Middleware that names answers to GET under /v1, and says 304 in place of one that the client has."""

    def __init__(self, app: ASGIApp, *, compressed_from: int) -> None:
        self.app = app
        self.compressed_from = compressed_from
        """Bytes from which an answer may be compressed afterwards, which then says that it varies."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with a name for what comes in one piece."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or scope["method"] != "GET" or not path.startswith("/v1/"):
            await self.app(scope, receive, send)
            return
        await self.app(scope, receive, _Named(Headers(scope=scope), send, self.compressed_from))


class _Named:
    """Sends an answer, once its first piece shows whether it is the only one."""

    def __init__(self, asked: Headers, send: Send, compressed_from: int) -> None:
        self._asked, self._send, self._compressed_from = asked, send, compressed_from
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_nameless(message):
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            if start["status"] == 304 or not message.get("more_body", False):
                message = self._name(start, message)
            await self._send(start)
        await self._send(message)

    def _name(self, start: Message, body: Message) -> Message:
        """Put the tag into `start`; the body, which is empty where the client has it."""
        tag = current_visit().tag or hashlib.sha256(body["body"]).hexdigest()[:32]
        headers = MutableHeaders(scope=start)
        suffix = _COMPRESSED if "gzip" in self._asked.get("accept-encoding", "") else ""
        headers["ETag"] = f'"{tag}{suffix}"'
        is_news = start["status"] != 304 and not _is_known(self._asked, tag)
        if not is_news or len(body["body"]) < self._compressed_from:
            headers.add_vary_header("Accept-Encoding")
        if is_news:
            return body
        start["status"] = 304
        for name in ("content-length", "content-type"):
            if name in headers:
                del headers[name]
        return {"type": "http.response.body", "body": b""}


def _is_nameless(start: Message) -> bool:
    return start["status"] in {200, 304} and "etag" not in Headers(raw=start["headers"])


def _is_known(asked: Headers, tag: str) -> bool:
    known = asked.get("if-none-match", "")
    tags = (each.strip().removeprefix("W/").strip('"').removesuffix(_COMPRESSED) for each in known.split(","))
    return known.strip() == "*" or tag in tags
