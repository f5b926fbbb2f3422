"""Which workers are there, and could one of them do a job?"""

import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Protocol

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from api.storage.tables import JobRow, WorkerRow
from api.web.paging import newest_rows, page
from api.web.problems import ForbiddenProblem
from tuner.messages import MAX_WAIT_S, JobKind, JobStatus, WorkerInventory

NOTED_EVERY = timedelta(seconds=5)
SILENCE = timedelta(seconds=3 * MAX_WAIT_S)
"""A worker that was not heard of for so long is not connected: waiting for a job takes a third of it."""
_MOST_CONNECTED = 1_000


def is_noted(session: Session, inventory: WorkerInventory, *, owner: str, now: datetime) -> bool:
    """Whether the worker asked just now, with the same inventory: a claim need not write that again."""
    row = session.get(WorkerRow, inventory.id)
    return (
        row is not None
        and row.owner == owner
        and row.last_seen_at > now - NOTED_EVERY
        and row.inventory == inventory.model_dump(mode="json")
    )


def note_worker(session: Session, inventory: WorkerInventory, *, owner: str, now: datetime) -> None:
    """Remember that a worker asked for a job; raises ForbiddenProblem where its id is another owner's."""
    row = session.get(WorkerRow, inventory.id, with_for_update=True)
    if row is None:
        row = WorkerRow(id=inventory.id, owner=owner, first_seen_at=now)
        _describe(row, inventory, now)
        try:
            with session.begin_nested():
                session.add(row)
        except IntegrityError:
            # The same worker asked twice at once, as after an answer that it did not hear.
            return
    if row.owner != owner:
        raise ForbiddenProblem(f"worker {inventory.id} belongs to {row.owner!r}: choose another id")
    _describe(row, inventory, now)


def note_alive(session: Session, worker_id: str | None, *, now: datetime) -> None:
    """Remember that a worker sent a heartbeat."""
    session.execute(
        update(WorkerRow)
        .where(WorkerRow.id == worker_id)
        .values(last_seen_at=now)
        .execution_options(synchronize_session=False)
    )


def connected(session: Session, *, now: datetime) -> list[WorkerInventory]:
    """What the workers have that were heard of lately."""
    query = (
        select(WorkerRow)
        .where(WorkerRow.last_seen_at > now - SILENCE)
        .order_by(WorkerRow.id)
        .limit(_MOST_CONNECTED)
    )
    return [_inventory(row) for row in session.scalars(query)]


def list_workers(
    session: Session, *, now: datetime, connected: bool | None = None, cursor: str | None, limit: int
) -> dict[str, Any]:
    """A page of workers, the newest first, with the jobs that each holds; all, or those (not) connected."""
    query = select(WorkerRow)
    if connected is not None:
        heard = WorkerRow.last_seen_at > now - SILENCE
        query = query.where(heard if connected else ~heard)
    shown, following = newest_rows(session, query, WorkerRow.id, cursor=cursor, limit=limit)
    running = select(JobRow.worker_id, JobRow.id).where(
        JobRow.status == JobStatus.RUNNING, JobRow.worker_id.in_([row.id for row in shown])
    )
    held: dict[str | None, list[str]] = {}
    for worker_id, job_id in session.execute(running):
        held.setdefault(worker_id, []).append(job_id)
    items = [_entry(row, jobs=held.get(row.id, []), now=now) for row in shown]
    return page(items, following)


class Need(Protocol):
    """What a job needs of its worker: a row of the table, or a job that is not there yet."""

    @property
    def kind(self) -> JobKind: ...

    @property
    def pool(self) -> str: ...

    @property
    def devices(self) -> int: ...

    @property
    def accelerator(self) -> str | None: ...

    @property
    def memory_bytes(self) -> int: ...


def fits(row: Need, worker: WorkerInventory) -> bool:
    """Whether the worker has what the job needs; as the condition of a claim."""
    suffices = (
        row.accelerator in {None, group.accelerator}
        and row.devices <= group.count
        and row.memory_bytes <= group.memory_bytes
        for group in worker.devices
    )
    return row.kind in worker.kinds and row.pool in worker.pools and (row.devices == 0 or any(suffices))


def needed(row: JobRow, workers: Iterable[WorkerInventory]) -> str:
    """What a job that is queued waits for, in words."""
    if any(fits(row, worker) for worker in workers):
        return "a free worker"
    devices = f" with {row.devices:,} x {row.accelerator or 'any accelerator'}" if row.devices else ""
    memory = f" of {row.memory_bytes / 1e9:,.1f} GB or more" if row.memory_bytes else ""
    return (
        f"a worker{devices}{memory} for {row.kind} jobs of pool {row.pool!r}: none is connected, "
        "see /v1/workers"
    )


def _describe(row: WorkerRow, inventory: WorkerInventory, now: datetime) -> None:
    row.name, row.last_seen_at = inventory.name, now
    row.inventory = inventory.model_dump(mode="json")


def _inventory(row: WorkerRow) -> WorkerInventory:
    return WorkerInventory.model_validate_json(json.dumps(row.inventory))


def _entry(row: WorkerRow, *, jobs: list[str], now: datetime) -> dict[str, Any]:
    return {
        **row.inventory,
        "owner": row.owner,
        "status": "connected" if row.last_seen_at > now - SILENCE else "silent",
        "jobs": jobs,
        "first_seen_at": row.first_seen_at.isoformat(),
        "last_seen_at": row.last_seen_at.isoformat(),
    }
