"""What is a study? A question that is kept together with its answer."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session, undefer

from api.jobs import queue
from api.storage.identifiers import new_identifier
from api.storage.tables import FINAL, Study, StudyStatus
from api.studies.events import move
from api.studies.outcomes import tuning
from api.studies.questions import Question, name_of, question_of
from api.studies.submissions import Submission
from api.studies.turns import lock
from api.studies.waiting import waiting_for
from api.web.paging import newest_rows, page
from api.web.problems import ConflictProblem, NotFoundProblem
from tuner.plan import Plan

_ANSWER_KEYS = (
    "schedule",
    "width",
    "depth",
    "micro_batch_size",
    "micro_batches",
    "recompute",
    "peak_memory_bytes",
)
_PREDICTED_KEYS = ("throughput_samples_per_s", "tokens_per_s", "mfu")


def new_study(session: Session, submission: Submission, *, caller: str, now: datetime) -> Study:
    """A study that nothing was done for yet."""
    model, cluster = name_of(submission.request)
    study = Study(
        id=new_identifier(now),
        name=submission.name,
        created_by=caller,
        status=StudyStatus.QUEUED,
        model=model,
        cluster=cluster,
        devices=submission.request.devices,
        mini_batch_size=submission.request.mini_batch_size,
        request=submission.document,
        refine=submission.refine.model_dump(mode="json") if submission.refine else None,
        due=False,
        created_at=now,
        updated_at=now,
    )
    session.add(study)
    session.flush()
    move(session, study, StudyStatus.QUEUED, now=now)
    return study


def answered_study(
    session: Session, submission: Submission, plan: dict[str, Any], *, caller: str, now: datetime
) -> Study:
    """A study that was answered at once."""
    study = new_study(session, submission, caller=caller, now=now)
    keep_plan(study, plan)
    move(session, study, StudyStatus.DONE, now=now)
    return study


def keep_plan(study: Study, plan: dict[str, Any]) -> None:
    """Write the answer down, the document of a plan."""
    study.plan, study.answer = plan, _answer(plan)
    study.model, study.cluster = plan["model"]["name"], plan["cluster"]["name"]


def study_document(session: Session, study: Study, *, base: str, now: datetime) -> dict[str, Any]:
    """A study with its request and its plan, and what its trials say."""
    waits = waiting_for(session, [study], now=now)
    return {
        **study_entry(study, base=base, waits=waits),
        "request": study.request,
        "plan": study.plan,
        "refine": study.refine,
        "tuning": tuning(session, study),
    }


def study_entry(study: Study, *, base: str, waits: Mapping[str, str]) -> dict[str, Any]:
    """A study in a few keys; `answer` is None when nothing fits. `waits` says what studies wait for."""
    here = f"{base}/v1/studies/{study.id}"
    parts = ("candidates", "rejected", "trials", "events", "report", "timeline", "trace")
    return {
        "id": study.id,
        "name": study.name,
        "status": study.status.value,
        "waiting_for": waits.get(study.id),
        "error": study.error,
        "model": study.model,
        "cluster": study.cluster,
        "devices": study.devices,
        "mini_batch_size": study.mini_batch_size,
        "answer": study.answer,
        "created_by": study.created_by,
        "created_at": study.created_at.isoformat(),
        "updated_at": study.updated_at.isoformat(),
        "links": {
            "self": here,
            "page": f"{base}/studies/{study.id}",
            **{part: f"{here}/{part}" for part in parts},
            "export": f"{here}/export/{{format}}",
        },
    }


def find_study(session: Session, identifier: str) -> Study:
    """The study with its request and plan; raises NotFoundProblem."""
    study = look_for(session, identifier)
    if study is None:
        raise no_study(identifier)
    return study


def look_for(session: Session, identifier: str) -> Study | None:
    """As find_study; None where there is none."""
    return session.get(
        Study,
        identifier,
        options=[undefer(Study.request), undefer(Study.plan), undefer(Study.outcome)],
    )


def no_study(identifier: str) -> NotFoundProblem:
    """There is no such study."""
    return NotFoundProblem(f"there is no study {identifier[:80]!r}; /v1/studies lists them")


def find_plan(session: Session, identifier: str) -> dict[str, Any]:
    """The plan of a study; raises NotFoundProblem, and ConflictProblem where there is none yet."""
    study = find_study(session, identifier)
    if study.plan is None:
        raise ConflictProblem(f"study {study.id} is {study.status.value} and has no plan")
    return study.plan


def read_question(session: Session, identifier: str) -> tuple[Question, Plan]:
    """What a study asks, with what was measured for it, and its plan; raises as find_plan does."""
    plan = read_plan(session, identifier)
    return question_of(session, find_study(session, identifier)), plan


def read_plan(session: Session, identifier: str) -> Plan:
    """As find_plan, checked and typed."""
    return Plan.model_validate(find_plan(session, identifier))


def list_studies(
    session: Session,
    *,
    status: StudyStatus | None = None,
    model: str | None = None,
    name: str | None = None,
    text: str | None = None,
    cursor: str | None = None,
    limit: int,
    base: str,
    now: datetime,
) -> dict[str, Any]:
    """A page of studies, the newest first; the cursor is the id of the last one seen.

    `text` is part of the name or of the model's.
    """
    query = select(Study)
    if status is not None:
        query = query.where(Study.status == status)
    if model is not None:
        query = query.where(Study.model == model)
    if name is not None:
        query = query.where(_holds(Study.name, name))
    if text is not None:
        query = query.where(or_(_holds(Study.name, text), _holds(Study.model, text)))
    found, following = newest_rows(session, query, Study.id, cursor=cursor, limit=limit)
    waits = waiting_for(session, found, now=now)
    return page([study_entry(study, base=base, waits=waits) for study in found], following)


def _holds(column: InstrumentedAttribute[Any], text: str) -> ColumnElement[bool]:
    """Whether a text is part of a column, in whatever case; exactly, where the database knows no more."""
    lowered = func.lower(column).contains(text.lower(), autoescape=True)
    return or_(lowered, column.contains(text, autoescape=True))


def cancel_study(session: Session, identifier: str, *, now: datetime) -> Study:
    """Stop a study that is not final yet, and its jobs; raises ConflictProblem for one that is."""
    study = lock(session, identifier)
    if study is None:
        return find_study(session, identifier)
    if study.status in FINAL:
        raise ConflictProblem(f"study {study.id} is {study.status.value}: there is nothing left to cancel")
    cancel_jobs(session, study, now=now)
    move(session, study, StudyStatus.CANCELLED, now=now)
    return study


def cancel_jobs(session: Session, study: Study, *, now: datetime) -> None:
    """Stop the jobs of a study whose row is locked; what another study waits for becomes that one's."""
    for column, job_id in ((Study.profile_job, study.profile_job), (Study.links_job, study.links_job)):
        other = job_id and session.scalar(
            select(Study.id)
            .where(column == job_id, Study.id != study.id, Study.status.not_in(FINAL))
            .limit(1)
        )
        if other:
            queue.hand_over(session, str(job_id), study_id=other)
    queue.cancel_jobs_of(session, study.id, now=now)


def delete_study(session: Session, identifier: str, *, now: datetime) -> None:
    """Forget a study and stop its jobs; raises NotFoundProblem."""
    study = lock(session, identifier)
    if study is not None:
        cancel_jobs(session, study, now=now)
        session.flush()
    if session.scalar(delete(Study).where(Study.id == identifier).returning(Study.id)) is None:
        raise no_study(identifier)


def _answer(plan: dict[str, Any]) -> dict[str, Any] | None:
    chosen = plan["chosen"]
    if chosen is None:
        return None
    told = {key: value for key, value in chosen.items() if key in _ANSWER_KEYS}
    return told | {key: chosen["predicted"][key] for key in _PREDICTED_KEYS}
