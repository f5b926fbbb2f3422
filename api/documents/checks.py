"""How was a model whenever it was checked? The checks that `chimera ci` uploaded, newest first."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, undefer

from api.documents.store import entry, older_than
from api.storage.tables import DocumentKind, StoredDocument
from api.web.paging import page


@dataclass(frozen=True)
class Wanted:
    """Which checks; None where it does not matter."""

    model: str | None = None
    project: str | None = None
    branch: str | None = None
    accepted: bool | None = None
    owner: str | None = None


def find_checks(session: Session, wanted: Wanted, *, limit: int) -> list[StoredDocument]:
    """The newest checks, with their documents."""
    return list(session.scalars(_query(wanted).limit(limit)))


def list_checks(
    session: Session, wanted: Wanted, *, cursor: str | None, limit: int, base: str
) -> dict[str, Any]:
    """A page of them."""
    query = _query(wanted).limit(limit + 1)
    if cursor is not None:
        query = query.where(older_than(session, DocumentKind.CHECK, cursor))
    found = session.scalars(query).all()
    following = found[limit - 1].id if len(found) > limit else None
    items = [entry(stored, base=base) | {"document": stored.document} for stored in found[:limit]]
    return page(items, following)


def _query(wanted: Wanted) -> Select[StoredDocument]:
    query = select(StoredDocument).where(StoredDocument.kind == DocumentKind.CHECK)
    content = StoredDocument.document
    if wanted.model is not None:
        query = query.where(StoredDocument.name == wanted.model)
    if wanted.owner is not None:
        query = query.where(StoredDocument.created_by == wanted.owner)
    if wanted.project is not None:
        query = query.where(content["project"].as_string() == wanted.project)
    if wanted.branch is not None:
        query = query.where(content["branch"].as_string() == wanted.branch)
    if wanted.accepted is not None:
        query = query.where(content["accepted"].as_boolean() == wanted.accepted)
    newest_first = query.order_by(StoredDocument.created_at.desc(), StoredDocument.id.desc())
    return newest_first.options(undefer(StoredDocument.document))
