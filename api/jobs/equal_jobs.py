"""Was the same measured before, or is it being measured? Found by fingerprint, subject, or what came out."""

from sqlalchemy import and_, or_, select
from sqlalchemy.orm import Session

from api.jobs.queue import NewJob
from api.storage.tables import JobRow
from tuner.messages import JobKind, JobStatus


def find_equal(session: Session, job: NewJob) -> JobRow | None:
    """The newest job that has answered, or will answer its owner, what this one would; None for no other."""
    if job.fingerprint is None:
        return None
    going_on = and_(
        JobRow.status.in_((JobStatus.QUEUED, JobStatus.RUNNING)),
        JobRow.created_by == job.created_by,
        JobRow.cancel_requested_at.is_(None),
    )
    return session.scalar(
        select(JobRow)
        .where(JobRow.fingerprint == job.fingerprint, JobRow.kind == job.kind)
        .where(or_(JobRow.status == JobStatus.DONE, going_on))
        .order_by(JobRow.status != JobStatus.DONE, JobRow.id.desc())
        .limit(1)
    )


def find_measured(session: Session, job: NewJob) -> list[JobRow]:
    """The jobs that have measured what this one would, with whatever thoroughness, the newest first."""
    if job.subject is None:
        return []
    query = select(JobRow).where(JobRow.subject == job.subject, JobRow.kind == job.kind)
    return list(session.scalars(query.where(JobRow.status == JobStatus.DONE).order_by(JobRow.id.desc())))


def find_by_profile(session: Session, profile: str) -> JobRow | None:
    """The newest job that measured this profile."""
    query = select(JobRow).where(JobRow.kind == JobKind.PROFILE_MODEL, JobRow.status == JobStatus.DONE)
    found = query.where(JobRow.result["profile"].as_string() == profile).order_by(JobRow.id.desc())
    return session.scalar(found.limit(1))
