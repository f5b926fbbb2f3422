"""Which profiles are held, newest first, and which studies rest on one?"""

from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from api.documents.store import older_than
from api.storage.tables import DocumentKind, StoredDocument, Study
from api.web.paging import page

_CONTENT = StoredDocument.document
_FACTS = {
    "model": _CONTENT["description"]["name"].as_string(),
    "accelerator": _CONTENT["timings"]["accelerator"].as_string(),
    "software": _CONTENT["timings"]["software"].as_string(),
    "precision": _CONTENT["timings"]["precision"].as_string(),
    "attention": _CONTENT["timings"]["attention"].as_string(),
    "sequence_length": _CONTENT["timings"]["sequence_length"].as_integer(),
    "device": _CONTENT["timings"]["environment"]["device"].as_string(),
    "provenance": _CONTENT["timings"]["types"][0]["provenance"].as_string(),
}


def list_profiles(session: Session, *, text: str | None, cursor: str | None, limit: int) -> dict[str, Any]:
    """A page of profiles in a few keys; the cursor is the id of the last one seen."""
    query = newest_profiles().limit(limit + 1)
    if text is not None:
        query = query.where(func.lower(StoredDocument.name).contains(text.lower(), autoescape=True))
    if cursor is not None:
        query = query.where(older_than(session, DocumentKind.PROFILE, cursor))
    found = [dict(row._mapping) for row in session.execute(query)]
    return page(found[:limit], found[limit - 1]["id"] if len(found) > limit else None)


def newest_profiles() -> Select[Any]:
    """Id, moment and owner of every profile, and what it is of."""
    columns = (StoredDocument.id, StoredDocument.created_by, StoredDocument.created_at)
    return (
        select(*columns, *(fact.label(name) for name, fact in _FACTS.items()))
        .where(StoredDocument.kind == DocumentKind.PROFILE)
        .order_by(StoredDocument.created_at.desc(), StoredDocument.id.desc())
    )


def studies_with(session: Session, identifier: str, *, limit: int) -> list[Study]:
    """The newest studies that name the profile or had it measured."""
    named = Study.request["model"]["profile"].as_string() == identifier
    query = select(Study).where(or_(Study.profile == identifier, named))
    return list(session.scalars(query.order_by(Study.id.desc()).limit(limit)))
