"""How is a long list read in pieces? Each page names where the next one starts."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Query
from sqlalchemy import Select
from sqlalchemy.orm import InstrumentedAttribute, Session

from api.storage.identifiers import PATTERN
from api.web.problems import InvalidProblem

Row = TypeVar("Row")

MAX_LIMIT = 500
FINGERPRINT = "[0-9a-f]{64}"
"""The id of a document: the SHA-256 of its content."""

Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT, description="Items on a page.")]


def _cursor(pattern: str) -> Any:
    """`next` of the page before. The pattern is what clients are told: each list checks its own."""
    return Query(
        max_length=100,
        description="`next` of the page before; the first page has none.",
        json_schema_extra={"pattern": pattern},
    )


Cursor = Annotated[str | None, _cursor(PATTERN)]
"""Of a list of rows: the id of the last one seen."""
DocumentCursor = Annotated[str | None, _cursor(f"^{FINGERPRINT}$")]
"""Of a list of documents: the fingerprint of the last one seen."""
Position = Annotated[str | None, _cursor("^[0-9]{1,12}$")]
"""Of a list that does not change: how many came before."""


def page(items: Sequence[Any], following: str | None, **more: Any) -> dict[str, Any]:
    """A page as JSON; `next` is None on the last one."""
    return {"items": items, "next": following, **more}


def slice_page(items: Sequence[Any], *, cursor: str | None, limit: int) -> dict[str, Any]:
    """A page of a list that does not change; the cursor is a position in it."""
    start = 0 if cursor is None else _position(cursor)
    end = start + limit
    return page(items[start:end], str(end) if end < len(items) else None, total=len(items))


def newest_rows(
    session: Session,
    query: Select[Row],
    identifier: InstrumentedAttribute[str],
    *,
    cursor: str | None,
    limit: int,
) -> tuple[Sequence[Row], str | None]:
    """The rows of a page, the newest first by ids that rise with time, and where the next page starts."""
    query = query.order_by(identifier.desc()).limit(limit + 1)
    if cursor is not None:
        query = query.where(identifier < last_seen(cursor, pattern=PATTERN))
    found = session.scalars(query).all()
    return found[:limit], getattr(found[limit - 1], identifier.key) if len(found) > limit else None


def last_seen(cursor: str, *, pattern: str) -> str:
    """The id that the page before ended with; raises InvalidProblem for what is no id."""
    if not re.fullmatch(pattern, cursor):
        raise _foreign(cursor)
    return cursor


def _position(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 12):
        raise _foreign(cursor)
    return int(cursor)


def _foreign(cursor: str) -> InvalidProblem:
    return InvalidProblem(f"the cursor {cursor[:40]!r} is not one of this list: pass `next` as it was given")
