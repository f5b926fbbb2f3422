"""What did the client send? Raw bytes become JSON within limits on size, nesting and content."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from api.service import ServiceDependency
from api.web.problems import MalformedBodyProblem, TooLargeProblem, WrongMediaTypeProblem
from profiles.errors import MalformedDocumentError
from profiles.json_text import parse_json

# What a client still sends after the limit is thrown away up to this, so that it gets to read the answer.
MAX_DISCARDED_BYTES = 128_000_000


@dataclass(frozen=True)
class Body:
    """A body and the JSON in it."""

    raw: bytes
    value: Any

    def fingerprint(self, *context: str) -> str:
        """SHA-256 of the bytes and where they were sent."""
        return hashlib.sha256("\n".join([*context, ""]).encode() + self.raw).hexdigest()


async def read_raw(request: Request, service: ServiceDependency) -> bytes:
    """The body's bytes; raises WrongMediaTypeProblem, and TooLargeProblem as soon as the limit is passed."""
    _check_media_type(request.headers.get("content-type", ""))
    _check_coding(request.headers.get("content-encoding", ""))
    limit = service.settings.max_body_bytes
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > limit and "expect" in request.headers:
        raise _too_large(int(declared), limit)
    size, parts = 0, []
    async for part in request.stream():
        size += len(part)
        if size <= limit:
            parts.append(part)
        elif size > MAX_DISCARDED_BYTES:
            break
    if size > limit:
        raise _too_large(size, limit)
    return b"".join(parts)


def parse(raw: Annotated[bytes, Depends(read_raw)]) -> Body:
    """Parse the bytes, in a worker thread; raises MalformedBodyProblem."""
    if not raw.strip():
        raise MalformedBodyProblem('the body is empty: send JSON such as {"model": "bert-48", ...}')
    try:
        value = parse_json(raw, name="the body")
    except MalformedDocumentError as error:
        raise MalformedBodyProblem(str(error)) from None
    for fault in _unusable(value):
        raise MalformedBodyProblem(f"the body holds {fault}: take it out")
    return Body(raw=raw, value=value)


BodyDependency = Annotated[Body, Depends(parse)]


def _check_media_type(content_type: str) -> None:
    kind = content_type.partition(";")[0].strip().lower()
    if (
        kind
        and kind != "application/json"
        and not (kind.startswith("application/") and kind.endswith("+json"))
    ):
        raise WrongMediaTypeProblem(
            f"the body is declared as {kind[:80]!r}: send JSON with Content-Type: application/json "
            "(`curl --json`, or `curl -H 'Content-Type: application/json' -d ...`)"
        )


def _check_coding(coding: str) -> None:
    if coding.strip().lower() not in {"", "identity"}:
        raise WrongMediaTypeProblem(
            f"the body is declared as Content-Encoding {coding[:40]!r}: send the JSON uncompressed"
        )


def _too_large(size: int, limit: int) -> TooLargeProblem:
    return TooLargeProblem(
        f"the body has {size:,} bytes and at most {limit:,} are read. A config.json has a few thousand: "
        "is this the right file?"
    )


def _unusable(value: Any) -> Iterator[str]:
    """What is JSON and yet cannot be stored or sent back: NUL and lone surrogates."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting.extend(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        elif isinstance(item, str) and not item.isprintable():
            if "\0" in item:
                yield "a NUL character (\\u0000)"
            if any("\ud800" <= character <= "\udfff" for character in item):
                yield "half of a surrogate pair (\\ud800 to \\udfff alone)"
