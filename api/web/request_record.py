"""What is known about the request that is being answered? Its id, who asks, and what it is about."""

import re
from contextvars import ContextVar
from dataclasses import dataclass
from secrets import token_hex

from starlette.datastructures import Headers
from starlette.types import Scope

from api.storage.identifiers import PATTERN

HEADER = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_IDENTIFIER = re.compile(PATTERN)


@dataclass
class RequestRecord:
    """What the log tells about a request. Handlers run in copies of its context and write to this one."""

    id: str
    caller: str | None = None
    """The id of the key, or `local`; never the key."""
    study_id: str | None = None
    job_id: str | None = None
    told: bool = False
    """Whether the log has the traceback of what went wrong."""


_current: ContextVar[RequestRecord | None] = ContextVar("request_record", default=None)


def begin(scope: Scope) -> RequestRecord:
    """A record for the request, under the id that it brought along if that is a sane one."""
    brought = Headers(scope=scope).get(HEADER, "")
    record = RequestRecord(brought if _SANE.fullmatch(brought) else token_hex(8))
    # Not reset: each request has a context of its own, and what is logged after the answer belongs to it.
    _current.set(record)
    return record


def current() -> RequestRecord | None:
    """The record of the request that this code works for."""
    return _current.get()


def note(*, caller: str | None = None, study_id: str | None = None, job_id: str | None = None) -> None:
    """Add what was found out about the request, if there is one. Only ids are kept, whatever was sent."""
    record = _current.get()
    if record is None:
        return
    record.caller = caller or record.caller
    if study_id is not None and _IDENTIFIER.match(study_id):
        record.study_id = study_id
    if job_id is not None and _IDENTIFIER.match(job_id):
        record.job_id = job_id
