"""Who changed what, and who was not let? Written with the change: neither is there without the other."""

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, event, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from api.service import Service
from api.storage.identifiers import new_identifier
from api.storage.tables import AuditEntry
from api.web.deadline import current_deadline
from api.web.paging import newest_rows, page
from api.web.visit import Visit, begin_visit, current_visit

COMMAND_LINE = "command line"
NOBODY = "nobody"
"""Who showed no key that is known."""
_LONGEST_ADDRESS, _LONGEST_TARGET = 100, 100

logger = logging.getLogger("chimera.audit")


@dataclass(frozen=True)
class Filter:
    """Which entries are looked for; None takes all."""

    owner: str | None = None
    key_id: str | None = None
    action: str | None = None
    target: str | None = None
    after: datetime | None = None
    before: datetime | None = None


def record(session: Session, target: str | None, *, now: datetime, status: int = 200) -> None:
    """Note that the present request changes `target`, in the transaction that does.

    Raises TimeoutProblem when it is too late to change anything.
    """
    current_deadline().begin_to_store()
    _add(session, target, now=now, status=status)


def record_command(session: Session, action: str, target: str, *, now: datetime) -> None:
    """Note what somebody on the host of the service did, straight in its database."""
    begin_visit(Visit(action=action, owner=COMMAND_LINE, address="this host"))
    _add(session, target, now=now, status=200)


def record_refusal(service: Service, target: str | None, *, status: int) -> None:
    """Note that the present request was not let; where the database does not answer, the log has it alone."""
    try:
        with service.database.writing() as session:
            _add(session, target, now=service.clock(), status=status)
    except DBAPIError as error:
        told = {"action": current_visit().action, "target": target, "status": status}
        logger.error(
            "a refusal is not in the audit log: %s", " ".join(str(error).split()), extra={"told": told}
        )


def list_entries(session: Session, wanted: Filter, *, cursor: str | None, limit: int) -> dict[str, Any]:
    """A page of the log, the newest entry first."""
    query = select(AuditEntry)
    for name in ("owner", "key_id", "action", "target"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(getattr(AuditEntry, name) == value)
    if wanted.after is not None:
        query = query.where(AuditEntry.at >= wanted.after)
    if wanted.before is not None:
        query = query.where(AuditEntry.at < wanted.before)
    found, following = newest_rows(session, query, AuditEntry.id, cursor=cursor, limit=limit)
    return page([_entry(row) for row in found], following)


def prune_entries(session: Session, *, before: datetime) -> None:
    """Forget what is older."""
    session.execute(delete(AuditEntry).where(AuditEntry.at < before))


def _add(session: Session, target: str | None, *, now: datetime, status: int) -> None:
    visit = current_visit()
    row = AuditEntry(
        id=new_identifier(now),
        at=now,
        owner=visit.owner or NOBODY,
        key_id=visit.identity if visit.key_name is not None else None,
        action=visit.action,
        target=None if target is None else target[:_LONGEST_TARGET],
        status=status,
        address=visit.address[:_LONGEST_ADDRESS],
        request_id=visit.request_id,
    )
    session.add(row)
    told = _entry(row)

    def tell(_: Session) -> None:
        message = "%(owner)s: %(action)s of %(target)s, %(status)s"
        logger.info(message, told, extra={"told": told})

    event.listen(session, "after_commit", tell, once=True)


def _entry(row: AuditEntry) -> dict[str, Any]:
    return {
        "id": row.id,
        "at": row.at.isoformat(),
        "owner": row.owner,
        "key_id": row.key_id,
        "action": row.action,
        "target": row.target,
        "status": row.status,
        "address": row.address,
        "request_id": row.request_id,
    }
