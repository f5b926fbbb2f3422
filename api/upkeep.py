"""What is done while nobody asks? Jobs that nobody may take over end, studies go on, what is old goes."""

import asyncio
import logging
from datetime import datetime, timedelta
from typing import NoReturn

from sqlalchemy import delete, select, tuple_
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from api.access.audit import prune_entries
from api.access.sessions import prune_sessions
from api.jobs.queue import settle_abandoned
from api.operations.metrics import TIDYING_FAILED
from api.service import Service
from api.storage.tables import JobAttachment, WorkerRow
from api.studies.progress import sweep

EVERY_S = 10.0
_PRUNED_AT_ONCE = 200

logger = logging.getLogger("chimera.api")


async def tidy_forever(service: Service) -> NoReturn:
    """Tidy up every few seconds, until cancelled. What goes wrong is logged, and tried again."""
    while True:
        try:
            await run_in_threadpool(tidy, service)
        except Exception as error:  # noqa: BLE001  # the service goes on without it
            TIDYING_FAILED.inc()
            logger.warning("tidying up failed: %s", " ".join(str(error).split()))
        await asyncio.sleep(EVERY_S)


def tidy(service: Service) -> None:
    """Tidy up once; several processes may do so at a time."""
    now = service.clock()
    with service.database.writing() as session:
        settle_abandoned(session, now=now)
    sweep(service)
    before = now - timedelta(days=service.settings.retention_days)
    with service.database.writing() as session:
        _prune_attachments(session, older_than=before)
        session.execute(delete(WorkerRow).where(WorkerRow.last_seen_at < before))
        prune_sessions(session, now=now)
        prune_entries(session, before=now - timedelta(days=service.settings.audit_days))


def _prune_attachments(session: Session, *, older_than: datetime) -> None:
    """Delete a batch of logs and traces. Jobs, results, profiles and measurements stay."""
    key = (JobAttachment.job_id, JobAttachment.attempt, JobAttachment.name)
    old = (
        select(*key)
        .where(JobAttachment.created_at < older_than)
        .limit(_PRUNED_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    session.execute(
        delete(JobAttachment).where(tuple_(*key).in_(old)).execution_options(synchronize_session=False)
    )
