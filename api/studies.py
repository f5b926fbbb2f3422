"""What is a study? A question that is kept together with its answer."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session, undefer

from api.identifiers import PATTERN, new_identifier
from api.paging import last_seen, page
from api.planning import plan_document
from api.problems import ConflictProblem, InvalidProblem, NotFoundProblem
from api.tables import FINAL, Study, StudyStatus
from tuner.plan import Plan
from tuner.request import PlanRequest, read_request

LONGEST_NAME = 200
_ANSWER_KEYS = (
    "schedule",
    "width",
    "depth",
    "micro_batch_size",
    "micro_batches",
    "recompute",
    "peak_memory_bytes",
)


@dataclass(frozen=True)
class Submission:
    """A study as it is submitted."""

    name: str | None
    request: PlanRequest
    document: dict[str, Any]
    """The request as it was sent, without `name` and `refine`."""


def read_submission(value: Any) -> Submission:
    """Check a parsed body; raises RequestError, UnsupportedOptionError or InvalidProblem."""
    if not isinstance(value, dict):
        return Submission(None, read_request(value), {})
    name = _check_name(value.get("name"))
    if value.get("refine") is not None:
        raise InvalidProblem(
            "refine: trials need a worker, and no worker is connected to this service. Leave refine out to "
            "get the answer of the model alone"
        )
    document = {key: entry for key, entry in value.items() if key not in {"name", "refine"}}
    return Submission(name, read_request(document), document)


def new_study(submission: Submission, plan: Plan, *, caller: str, now: datetime) -> Study:
    """A study that was answered at once."""
    return Study(
        id=new_identifier(now),
        name=submission.name,
        created_by=caller,
        status=StudyStatus.DONE,
        waiting_for=None,
        model=plan.model.name,
        cluster=plan.cluster.name,
        devices=plan.cluster.devices,
        mini_batch_size=submission.request.mini_batch_size,
        answer=_answer(plan),
        request=submission.document,
        plan=plan_document(plan),
        created_at=now,
        updated_at=now,
    )


def study_document(study: Study, *, base: str) -> dict[str, Any]:
    """A study with its request and its plan."""
    return {**study_entry(study, base=base), "request": study.request, "plan": study.plan}


def study_entry(study: Study, *, base: str) -> dict[str, Any]:
    """A study in a few keys; `answer` is None when nothing fits."""
    here = f"{base}/v1/studies/{study.id}"
    parts = ("candidates", "rejected", "trials", "report", "timeline", "trace")
    return {
        "id": study.id,
        "name": study.name,
        "status": study.status.value,
        "waiting_for": study.waiting_for,
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
    study = session.get(Study, identifier, options=[undefer(Study.request), undefer(Study.plan)])
    if study is None:
        raise NotFoundProblem(f"there is no study {identifier[:80]!r}; /v1/studies lists them")
    return study


def find_plan(session: Session, identifier: str) -> dict[str, Any]:
    """The plan of a study; raises NotFoundProblem, and ConflictProblem where there is none yet."""
    study = find_study(session, identifier)
    if study.plan is None:
        raise ConflictProblem(f"study {study.id} is {study.status.value} and has no plan")
    return study.plan


def read_question(session: Session, identifier: str) -> tuple[dict[str, Any], Plan]:
    """The request of a study as it was sent, and its plan; raises as find_plan does."""
    plan = read_plan(session, identifier)
    return find_study(session, identifier).request, plan


def read_plan(session: Session, identifier: str) -> Plan:
    """As find_plan, checked and typed."""
    return Plan.model_validate(find_plan(session, identifier))


def list_studies(
    session: Session,
    *,
    status: StudyStatus | None = None,
    model: str | None = None,
    name: str | None = None,
    cursor: str | None = None,
    limit: int,
    base: str,
) -> dict[str, Any]:
    """A page of studies, the newest first; the cursor is the id of the last one seen."""
    query = select(Study).order_by(Study.id.desc()).limit(limit + 1)
    if status is not None:
        query = query.where(Study.status == status)
    if model is not None:
        query = query.where(Study.model == model)
    if name is not None:
        query = query.where(func.lower(Study.name).contains(name.lower(), autoescape=True))
    if cursor is not None:
        query = query.where(Study.id < last_seen(cursor, pattern=PATTERN))
    found = session.scalars(query).all()
    following = found[limit - 1].id if len(found) > limit else None
    return page([study_entry(study, base=base) for study in found[:limit]], following)


def cancel_study(session: Session, identifier: str, *, now: datetime) -> Study:
    """Stop a study that is not final yet; raises ConflictProblem for one that is."""
    study = find_study(session, identifier)
    if study.status in FINAL:
        raise ConflictProblem(f"study {study.id} is {study.status.value}: there is nothing left to cancel")
    study.status, study.waiting_for, study.updated_at = StudyStatus.CANCELLED, None, now
    return study


def delete_study(session: Session, identifier: str) -> None:
    """Forget a study; raises NotFoundProblem."""
    if session.scalar(delete(Study).where(Study.id == identifier).returning(Study.id)) is None:
        raise NotFoundProblem(f"there is no study {identifier[:80]!r}; /v1/studies lists them")


def _check_name(name: Any) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidProblem(f"name: must be one line of 1 to {LONGEST_NAME} characters")
    return name


def _answer(plan: Plan) -> dict[str, Any] | None:
    if plan.chosen is None:
        return None
    chosen = plan.chosen.model_dump(mode="json", include={*_ANSWER_KEYS, "predicted"})
    predicted = chosen.pop("predicted")
    return chosen | {key: predicted[key] for key in ("throughput_samples_per_s", "tokens_per_s", "mfu")}
