"""Which documents, from profiles to checks, are held? Each has the SHA-256 of its content."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select, tuple_
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, undefer

from api.storage.tables import DocumentKind, StoredDocument
from api.web.idempotency import Answer
from api.web.paging import FINGERPRINT, last_seen, page
from api.web.problems import InvalidProblem, NotFoundProblem
from profiles.calibration import Calibration, CalibrationSet
from profiles.cluster import ClusterProfile
from profiles.document import Document
from profiles.measurement import Measurements
from profiles.timings import Profile
from tuner.regressions.check import Check

SCHEMAS: dict[DocumentKind, type[Document]] = {
    DocumentKind.PROFILE: Profile,
    DocumentKind.CLUSTER: ClusterProfile,
    DocumentKind.MEASUREMENTS: Measurements,
    DocumentKind.CALIBRATION: Calibration,
    DocumentKind.CHECK: Check,
}
_LONGEST_NAME = 200


def read_document(kind: DocumentKind, value: Any) -> Document:
    """Check a parsed body; raises MalformedDocumentError naming the faults."""
    return SCHEMAS[kind].from_value(value, name=f"the {SCHEMAS[kind].kind_name}")


def store_document(
    session: Session, document: Document, *, kind: DocumentKind, caller: str, now: datetime, base: str
) -> Answer:
    """Keep a document under its fingerprint: 201, or 200 when the same content was there already."""
    identifier = document.fingerprint()
    found = find_document(session, kind, identifier)
    status = 200 if found else 201
    if found is None:
        found = StoredDocument(
            kind=kind,
            id=identifier,
            name=_name(document),
            created_by=caller,
            document=document.model_dump(mode="json", exclude_none=True),
            created_at=now,
        )
        try:
            with session.begin_nested():
                session.add(found)
        except IntegrityError:
            # The same content came at the same moment.
            status, found = 200, require_document(session, kind, identifier)
    body = entry(found, base=base) | {"document": found.document}
    return Answer(status=status, body=body, headers={"Location": body["links"]["self"]})


def find_document(session: Session, kind: DocumentKind, identifier: str) -> StoredDocument | None:
    """The document with that id, with its content."""
    return session.get(StoredDocument, (kind, identifier), options=[undefer(StoredDocument.document)])


def require_document(session: Session, kind: DocumentKind, identifier: str) -> StoredDocument:
    """As find_document; raises NotFoundProblem."""
    found = find_document(session, kind, identifier)
    if found is None:
        raise NotFoundProblem(f"there is no document {identifier[:80]!r} under /v1/{kind}")
    return found


def list_documents(
    session: Session, kind: DocumentKind, *, cursor: str | None, limit: int, base: str
) -> dict[str, Any]:
    """A page of the documents of a kind, by id, without their content."""
    query = (
        select(StoredDocument).where(StoredDocument.kind == kind).order_by(StoredDocument.id).limit(limit + 1)
    )
    if cursor is not None:
        query = query.where(StoredDocument.id > last_seen(cursor, pattern=FINGERPRINT))
    found = session.scalars(query).all()
    following = found[limit - 1].id if len(found) > limit else None
    return page([entry(stored, base=base) for stored in found[:limit]], following)


def older_than(session: Session, kind: DocumentKind, cursor: str) -> ColumnElement[bool]:
    """Where a list of the newest documents of a kind goes on; raises InvalidProblem for what is no cursor."""
    last = require_document(session, kind, last_seen(cursor, pattern=FINGERPRINT))
    return tuple_(StoredDocument.created_at, StoredDocument.id) < tuple_(last.created_at, last.id)


def entry(stored: StoredDocument, *, base: str) -> dict[str, Any]:
    """A stored document in a few keys."""
    return {
        "id": stored.id,
        "name": stored.name,
        "created_by": stored.created_by,
        "created_at": stored.created_at.isoformat(),
        "links": {"self": f"{base}/v1/{stored.kind.value}/{stored.id}"},
    }


def _calibrated(learnt: CalibrationSet) -> str:
    """What a set is of, how much it saw, and how far off measurements that were left out are."""
    of = (
        f"{learnt.cluster}, {learnt.model or 'all models'}{'' if learnt.synchronous else ', without a flush'}"
    )
    return f"{of}: {learnt.measurements} measurements, {learnt.mean_error:.1%} off"


def _name(document: Document) -> str:
    match document:
        case Profile():
            return f"{document.description.name} on {document.timings.accelerator}"[:_LONGEST_NAME]
        case ClusterProfile():
            return document.name
        case Check():
            return document.answer.name
        case Measurements():
            return document.source[:_LONGEST_NAME]
        case Calibration():
            of = "; ".join(_calibrated(each) for each in document.sets)
            return of if len(of) <= _LONGEST_NAME else f"{of[: _LONGEST_NAME - 3]}..."
        case _:
            raise InvalidProblem(f"a {document.kind_name} is not stored")
