"""What does a study wait for? For its jobs: which, since when, and which workers could do them, in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from api.jobs import workers
from api.storage.tables import FINAL, JobRow, Study, StudyStatus, WorkerRow
from tuner.messages import FINAL_STATUSES, JobStatus, WorkerInventory

_LONGEST = 500
_TOLD = 2
"""Jobs that are told of one by one."""
_NAMED = 3
"""Workers that are named."""


def waiting_for(session: Session, studies: Sequence[Study], *, now: datetime) -> dict[str, str]:
    """What each study that is not final waits for, by id."""
    going_on = [study for study in studies if study.status not in FINAL]
    if not going_on:
        return {}
    jobs = _jobs(session, going_on)
    scene = _Scene(workers.connected(session, now=now), _names(session, jobs), now)
    return {study.id: scene.of_study(study, _of(study, jobs))[:_LONGEST] for study in going_on}


def _jobs(session: Session, studies: Sequence[Study]) -> list[JobRow]:
    """Their jobs that have not ended, those of other studies that they wait for included."""
    shared = [job for study in studies for job in (study.profile_job, study.links_job) if job]
    query = (
        select(JobRow)
        .where(JobRow.status.not_in(FINAL_STATUSES))
        .where(or_(JobRow.study_id.in_([study.id for study in studies]), JobRow.id.in_(shared)))
        .order_by(JobRow.id)
    )
    return list(session.scalars(query))


def _of(study: Study, jobs: list[JobRow]) -> list[JobRow]:
    own = {study.profile_job, study.links_job}
    return [row for row in jobs if row.study_id == study.id or row.id in own]


def _names(session: Session, jobs: list[JobRow]) -> dict[str, str]:
    wanted = {row.worker_id for row in jobs if row.worker_id}
    found = session.execute(select(WorkerRow.id, WorkerRow.name).where(WorkerRow.id.in_(wanted)))
    return {row.id: row.name for row in found}


@dataclass(frozen=True)
class _Scene:
    """Who is there at a moment."""

    present: list[WorkerInventory]
    names: dict[str, str]
    """Of workers that hold or held a job."""
    now: datetime

    def of_study(self, study: Study, jobs: list[JobRow]) -> str:
        """What a study with these jobs waits for."""
        if not jobs:
            doing = {
                StudyStatus.QUEUED: "to be looked at",
                StudyStatus.SEARCHING: "the search over its configurations",
            }.get(study.status, "the next choice")
            return f"{doing}, since {study.updated_at:%H:%M:%S} UTC"
        # What runs is told first: it will end.
        jobs = sorted(jobs, key=lambda row: row.status != JobStatus.RUNNING)
        told = "; ".join(map(self.of_job, jobs[:_TOLD]))
        more = len(jobs) - _TOLD
        return f"{told}; and {more} more job{'s' * (more > 1)}" if more > 0 else told

    def of_job(self, row: JobRow) -> str:
        """Which job it is, since when, and who does it or could."""
        what, worker = f"{row.kind} job {row.id}", self.names.get(row.worker_id or "", row.worker_id)
        since = f"{what}, queued since {row.created_at:%H:%M:%S} UTC"
        if row.status == JobStatus.RUNNING:
            if row.lease_expires_at is None or row.lease_expires_at > self.now:
                doing = (row.progress or {}).get("doing")
                return (
                    f"{what}, begun at {row.started_at or row.updated_at:%H:%M:%S} UTC on worker {worker}, "
                    f"attempt {row.attempts} of {row.max_attempts}{f': {doing}' if doing else ''}"
                )
            since = (
                f"{what}, left at {row.lease_expires_at:%H:%M:%S} UTC by worker {worker}, which fell silent"
            )
        able = [each.name for each in self.present if workers.fits(row, each)]
        if not able:
            return f"{since}, for {workers.needed(row, self.present)}"
        named = ", ".join(able[:_NAMED]) + (", ..." if len(able) > _NAMED else "")
        return f"{since}, for one of {len(able)} connected workers that can do it ({named})"
