"""Does the client have this answer already? Each answer of the interface is named by its content.

What is said about a study that has ended is named before it is made, and kept for a while as it was sent.
"""

import gzip
import hashlib
from dataclasses import dataclass

from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.web.addresses import path_below
from api.web.kept import Kept
from api.web.visit import current_visit

MOST_BYTES = 64_000_000
"""Of the answers that are kept, as they are sent."""
_LEVEL = 4
_COMPRESSED = "-gzip"
"""The same content in another encoding is another answer: a strong tag tells them apart."""


@dataclass(frozen=True)
class SentAnswer:
    """An answer as it was sent."""

    headers: list[tuple[bytes, bytes]]
    body: bytes


class AlreadyAnswered(Exception):  # noqa: N818  # it is no error
    """The answer is there, raised before anything is read that it was made of; None: the client has it."""

    def __init__(self, answer: SentAnswer | None) -> None:
        super().__init__()
        self.answer = answer

    def response(self) -> Response:
        """The same again, or 304, which `ETags` completes."""
        if self.answer is None:
            return Response(status_code=304)
        response = Response(self.answer.body)
        response.raw_headers = list(self.answer.headers)
        return response


def require_news(asked: Headers, version: str, kept: Kept[SentAnswer]) -> None:
    """Name the answer by `version`, which changes with it; raises AlreadyAnswered where it is there."""
    tag = hashlib.sha256(version.encode()).hexdigest()[:32]
    current_visit().tag = tag
    if tag in _known(asked):
        raise AlreadyAnswered(None)
    answer = kept.find(tag + _suffix(asked))
    if answer is not None:
        raise AlreadyAnswered(answer)


class ETags:
    """Middleware that names answers to GET under /v1, and says 304 in place of one that the client has."""

    def __init__(self, app: ASGIApp, *, compressed_from: int, kept: Kept[SentAnswer]) -> None:
        self.app = app
        self.compressed_from = compressed_from
        """Bytes from which an answer is compressed, here or afterwards."""
        self.kept = kept

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, with a name for what comes in one piece."""
        if scope["type"] != "http" or scope["method"] != "GET" or not path_below(scope).startswith("/v1/"):
            await self.app(scope, receive, send)
            return
        await self.app(scope, receive, _Named(self, Headers(scope=scope), send))


class _Named:
    """Sends an answer, once its first piece shows whether it is the only one."""

    def __init__(self, tags: ETags, asked: Headers, send: Send) -> None:
        self._tags, self._asked, self._send = tags, asked, send
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_nameless(message):
            self._start = message
            return
        start, self._start = self._start, None
        if start is not None:
            if start["status"] == 304 or not message.get("more_body", False):
                message = await self._name(start, message)
            await self._send(start)
        await self._send(message)

    async def _name(self, start: Message, message: Message) -> Message:
        """Put the tag into `start`; the body, which is empty where the client has it."""
        body, known = message["body"], current_visit().tag
        tag = known or hashlib.sha256(body).hexdigest()[:32]
        headers = MutableHeaders(scope=start)
        headers["ETag"] = f'"{tag}{_suffix(self._asked)}"'
        if start["status"] == 304 or {tag, "*"} & _known(self._asked):
            start["status"] = 304
            headers.add_vary_header("Accept-Encoding")
            for name in ("content-length", "content-type"):
                if name in headers:
                    del headers[name]
            return {"type": "http.response.body", "body": b""}
        if len(body) < self._tags.compressed_from:
            headers.add_vary_header("Accept-Encoding")
        if known is not None and "content-encoding" not in headers:
            body = await self._keep(tag, headers, body)
        return {"type": "http.response.body", "body": body}

    async def _keep(self, tag: str, headers: MutableHeaders, body: bytes) -> bytes:
        """Keep the answer as it is sent, compressed where that is asked for and worth it."""
        if len(body) >= self._tags.compressed_from:
            headers.add_vary_header("Accept-Encoding")
            if _suffix(self._asked):
                body = await run_in_threadpool(gzip.compress, body, compresslevel=_LEVEL, mtime=0)
                headers["Content-Encoding"], headers["Content-Length"] = "gzip", str(len(body))
        answer = SentAnswer(list(headers.raw), body)
        self._tags.kept.keep(tag + _suffix(self._asked), answer, size_bytes=len(body))
        return body


def _is_nameless(start: Message) -> bool:
    return start["status"] in {200, 304} and "etag" not in Headers(raw=start["headers"])


def _suffix(asked: Headers) -> str:
    return _COMPRESSED if "gzip" in asked.get("accept-encoding", "") else ""


def _known(asked: Headers) -> set[str]:
    """The tags of what the client has, in whatever encoding; `*` for anything."""
    known = asked.get("if-none-match", "").split(",")
    return {each.strip().removeprefix("W/").strip('"').removesuffix(_COMPRESSED) for each in known}
