"""What was tried for a study? Rows beside the jobs that run them, as the tuner and as people read them."""

import hashlib
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, undefer

from api.jobs import queue
from api.jobs.queue import NewJob
from api.storage.tables import JobRow, Study, StudyTrial
from api.studies.events import note
from api.web.problems import InvalidProblem
from profiles.document import canonical_json
from tuner.assignments import TrialConfiguration, TrialResult, read_piece
from tuner.configuration import Configuration
from tuner.messages import FINAL_STATUSES, JobStatus
from tuner.trial_rows import row_of
from tuner.trials import Trial, TrialStatus

UNENDED = frozenset({TrialStatus.QUEUED, TrialStatus.RUNNING})


def read_trials(session: Session, study_id: str) -> list[StudyTrial]:
    """All rows of a study, in the order in which they were proposed."""
    query = select(StudyTrial).where(StudyTrial.study_id == study_id).order_by(StudyTrial.number)
    return list(session.scalars(query))


def read_unended(session: Session, study_id: str) -> list[StudyTrial]:
    """The rows of a study that are not known to have ended."""
    query = select(StudyTrial).where(StudyTrial.study_id == study_id, StudyTrial.status.in_(UNENDED))
    return list(session.scalars(query.order_by(StudyTrial.number)))


def jobs_of(session: Session, trials: list[StudyTrial]) -> dict[str, JobRow]:
    """The jobs of the trials that have not ended, by id."""
    wanted = [trial.job_id for trial in trials if trial.status in UNENDED]
    query = select(JobRow).where(JobRow.id.in_(wanted)).options(undefer(JobRow.result))
    return {row.id: row for row in session.scalars(query)}


def add_trial(
    session: Session, study: Study, job: NewJob, *, why: dict[str, Any], now: datetime
) -> StudyTrial:
    """Queue a trial of a study whose row is locked; raises IntegrityError where its point is taken."""
    number = 1 + (
        session.scalar(select(func.max(StudyTrial.number)).where(StudyTrial.study_id == study.id)) or 0
    )
    configuration = job.payload["configuration"]
    point = point_of(configuration)
    same = (StudyTrial.study_id == study.id, StudyTrial.point == point)
    before = session.scalar(select(func.count()).select_from(StudyTrial).where(*same)) or 0
    row = queue.enqueue(session, NewJob(**vars(job) | {"payload": job.payload | {"number": number}}), now=now)
    trial = StudyTrial(
        study_id=study.id,
        number=number,
        point=point,
        attempt=before + 1,
        job_id=row.id,
        status=TrialStatus.QUEUED,
        configuration=configuration,
        proposal=why,
        created_at=now,
    )
    session.add(trial)
    session.flush()
    note(session, study, "trial", data=entry(trial), now=now)
    return trial


def has_ended(session: Session, trials: list[StudyTrial]) -> bool:
    """Whether a job ended whose trial does not know it yet."""
    return any(row.status in FINAL_STATUSES for row in jobs_of(session, trials).values())


def end_trials(
    session: Session, study: Study, trials: list[StudyTrial], *, now: datetime
) -> list[StudyTrial]:
    """Write down what came of the jobs that have ended meanwhile; the trials that so ended."""
    jobs = jobs_of(session, trials)
    ended = [trial for trial in trials if (row := jobs.get(trial.job_id)) and row.status in FINAL_STATUSES]
    for trial in ended:
        row = jobs[trial.job_id]
        trial.ended_at = row.finished_at
        if row.status == JobStatus.DONE and row.result is not None:
            trial.status, trial.result = TrialStatus(row.result["status"]), row.result
            trial.status = as_row(trial).status
        else:
            told = (row.error or {}).get("message") if row.status == JobStatus.FAILED else "it was cancelled"
            trial.status, trial.result = TrialStatus.FAILED, {"message": told or "nobody said why"}
        session.flush()
        note(session, study, "trial", data=entry(trial), now=now)
    return ended


def as_row(trial: StudyTrial) -> Trial:
    """As the choice of the next trial reads it."""
    configuration = configuration_of(trial)
    predicted_s = float(trial.proposal["predicted_s"])
    if trial.status in UNENDED:
        return Trial(configuration, predicted_s, trial.status)
    if "status" in (trial.result or {}):
        return row_of(
            configuration, predicted_s, read_piece(TrialResult, trial.result, name="the result of a trial")
        )
    return Trial(configuration, predicted_s, TrialStatus.FAILED, message=(trial.result or {}).get("message"))


def configuration_of(trial: StudyTrial) -> Configuration:
    """What was tried."""
    return TrialConfiguration.model_validate(trial.configuration).configuration()


def point_of(configuration: dict[str, Any]) -> str:
    """The name of a configuration among those of its study."""
    return hashlib.sha256(canonical_json(configuration).encode()).hexdigest()


def entry(trial: StudyTrial, *, job: JobRow | None = None, base: str = "") -> dict[str, Any]:
    """A trial beside its prediction; the job, where it is given, knows how far it is."""
    result = trial.result or {}
    spread = result.get("measured_iteration_s")
    row = as_row(trial)
    return {
        "number": trial.number,
        "configuration": trial.configuration,
        "status": status_of(trial, job).value,
        "predicted": trial.proposal["predicted_s"],
        "measured": row.measured_s,
        "expected": {key: trial.proposal[f"{key}_s"] for key in ("expected", "low", "high")},
        "spread": {key: spread[key] for key in ("p10", "p90")} if spread else None,
        "peak_memory_bytes": int(row.peak_bytes) if row.peak_bytes is not None else None,
        "device_seconds": row.device_seconds,
        "message": row.message,
        "attempt": trial.attempt,
        "by": trial.proposal["by"],
        "reason": trial.proposal["reason"],
        "job": trial.job_id,
        "created_at": trial.created_at.isoformat(),
        "ended_at": trial.ended_at.isoformat() if trial.ended_at else None,
        "links": {"job": f"{base}/v1/jobs/{trial.job_id}"},
    }


def status_of(trial: StudyTrial, job: JobRow | None) -> TrialStatus:
    """Where the trial stands; of one that has not ended the job knows better."""
    if job is None or trial.status not in UNENDED:
        return trial.status
    return TrialStatus.RUNNING if job.status == JobStatus.RUNNING else TrialStatus.QUEUED


def find_trial(trials: list[StudyTrial], wanted: Trial | None) -> StudyTrial | None:
    """The row behind what the tuner calls a trial; raises InvalidProblem for one that is none of them."""
    if wanted is None:
        return None
    for trial in trials:
        if as_row(trial) == wanted:
            return trial
    raise InvalidProblem(f"{wanted.configuration} is no trial of this study")
