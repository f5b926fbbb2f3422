"""How does a study get profiles? What is known is taken, what is under way awaited, the rest is asked for."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from api.jobs import equal_jobs, queue
from api.jobs.queue import NewJob
from api.service import Service
from api.storage.tables import JobRow, Study, StudyStatus
from api.studies.events import move, note
from api.studies.needs import known_answer, needs_of
from api.studies.turns import Turn, held
from tuner.messages import FINAL_STATUSES, JobKind, JobStatus
from tuner.refine_request import RefineRequest
from tuner.request import read_request

_NOT_MEASURED: dict[str, Any] = {}


def begin(service: Service, turn: Turn) -> bool:
    """From queued to profiling, or to searching where everything is known."""
    now = service.clock()
    with held(service, turn) as (session, study):
        for job in _wanted(study):
            _seek(session, study, job, now=now)
        move(session, study, StudyStatus.PROFILING if _is_missing(study) else StudyStatus.SEARCHING, now=now)
    return True


def collect(service: Service, turn: Turn) -> bool:
    """From profiling to searching once all is measured, or to failed; False while there is to wait."""
    now = service.clock()
    with held(service, turn) as (session, study):
        for job in _wanted(study):
            if _found(study, job) is None:
                _look(session, study, job, now=now)
        if study.error is not None:
            move(session, study, StudyStatus.FAILED, now=now)
            return False
        if _is_missing(study):
            return False
        move(session, study, StudyStatus.SEARCHING, now=now)
    return True


def _wanted(study: Study) -> list[NewJob]:
    """The jobs that measure what the study needs, trials aside."""
    refine = RefineRequest.model_validate(study.refine) if study.refine else None
    needs = needs_of(read_request(study.request), refine, caller=study.created_by)
    return [job for job in (needs.profile, needs.links) if job is not None]


def _seek(session: Session, study: Study, job: NewJob, *, now: datetime) -> None:
    """Find the answer, or the job that will give it."""
    row = known_answer(session, job) or equal_jobs.find_equal(session, job)
    if row is None:
        row = queue.enqueue(session, _of_study(job, study), now=now)
    if job.subject is not None:
        study.profile_job = row.id
    else:
        study.links_job = row.id
    _take(study, job, row)


def _look(session: Session, study: Study, job: NewJob, *, now: datetime) -> None:
    """Take the answer when it is there; ask again where the job of another study was cancelled."""
    identifier = study.profile_job if job.subject is not None else study.links_job
    row = session.get(JobRow, identifier) if identifier else None
    if row is None or (row.status == JobStatus.CANCELLED and row.study_id != study.id):
        _seek(session, study, job, now=now)
    elif row.status in FINAL_STATUSES and row.status != JobStatus.DONE:
        why = (row.error or {}).get("message", "nobody said why") if row.status == JobStatus.FAILED else ""
        told = f"the {row.kind} job {row.id} {f'failed: {why}' if why else 'was cancelled'}"
        if job.kind == JobKind.PROFILE_LINKS and why:
            # A busy machine's times make no line: the plan goes on with what the cluster's document says.
            study.links = _NOT_MEASURED
            message = f"{told}; the links are taken as the cluster's document has them"
            note(session, study, "note", data={"message": message}, now=now)
        else:
            study.error = told[:4_000]
    else:
        _take(study, job, row)


def _take(study: Study, job: NewJob, row: JobRow) -> None:
    if row.status != JobStatus.DONE or row.result is None:
        return
    if job.subject is not None:
        study.profile = str(row.result["profile"])
    else:
        study.links = row.result["links"][0]["link"]


def _found(study: Study, job: NewJob) -> object:
    return study.profile if job.subject is not None else study.links


def _is_missing(study: Study) -> bool:
    return any(_found(study, job) is None for job in _wanted(study))


def _of_study(job: NewJob, study: Study) -> NewJob:
    return NewJob(**vars(job) | {"study_id": study.id})
