"""How does a study get on? Step by step, by whoever ended one of its jobs, and by a sweep that forgets none.

queued -> profiling -> searching -> measuring -> done; each step reads, works outside any transaction, and
writes what it found and where the study stands at once, under a turn (`api.turns`). Killed anywhere, the
next process starts from what was written.
"""

import logging
from collections.abc import Callable

from sqlalchemy import or_, select
from sqlalchemy.exc import OperationalError

from api.planning import plan_document, plan_question
from api.processes.pool import DiedProblem
from api.service import Service
from api.storage.tables import FINAL, JobRow, Study, StudyStatus
from api.studies import measuring, outcomes, profiling, turns
from api.studies import store as studies
from api.studies.events import move
from api.studies.questions import question_of
from api.studies.turns import LostTurnError, Turn, held
from api.web.problems import Problem, TimeoutProblem, UnavailableProblem
from profiles.errors import DocumentError
from tuner.errors import TunerError

logger = logging.getLogger("chimera.api")

_LONGEST_ERROR = 4_000


def advance(service: Service, study_id: str) -> None:
    """Move a study on as far as it goes now; what goes wrong ends it, with the reason."""
    turn = turns.take(service, study_id)
    if turn is not None:
        with turns.kept(service, turn):
            _use(service, turn)
    service.bell.ring()


def advance_after(service: Service, job_id: str) -> None:
    """Move on the studies that waited for a job."""
    for study_id in _waiting_for(service, job_id):
        advance(service, study_id)


def sweep(service: Service) -> None:
    """Move on whatever can be: what a process left that died, and what new workers can do."""
    for study_id in turns.waiting(service):
        advance(service, study_id)


def _use(service: Service, turn: Turn) -> None:
    """Step after step, until there is to wait and nothing happened meanwhile."""
    while True:
        try:
            while _step(service, turn):
                pass
        except LostTurnError:
            return
        except OperationalError as error:
            # The database is away: the turn runs out, and a sweep goes on.
            _stay(turn, error)
            return
        except (TunerError, DocumentError, Problem) as error:
            if isinstance(error, TimeoutProblem | UnavailableProblem) and not isinstance(error, DiedProblem):
                # The service stops, or the request's time is over: a sweep goes on, also of the next process.
                _stay(turn, error)
                return
            _fail(service, turn, str(error))
            return
        except Exception as error:
            logger.exception("study %s", turn.study_id)
            _fail(service, turn, f"unexpected {type(error).__name__}: the log of the service tells what")
            return
        if turns.give_back(service, turn):
            return


def _stay(turn: Turn, error: Exception) -> None:
    logger.warning("study %s stays where it is: %s", turn.study_id, " ".join(str(error).split()))


def _step(service: Service, turn: Turn) -> bool:
    """One step; whether another may follow at once."""
    with service.database.reading() as session:
        study = session.get(Study, turn.study_id)
        status = study.status if study is not None else StudyStatus.CANCELLED
    step = _STEPS.get(status)
    return step is not None and step(service, turn)


def _search(service: Service, turn: Turn) -> bool:
    """From searching to done, or to measuring where there is something to try."""
    with service.database.reading() as session:
        question = question_of(session, session.get_one(Study, turn.study_id))
    plan = plan_document(plan_question(question, service))
    with held(service, turn) as (session, study):
        studies.keep_plan(study, plan)
        if study.refine is not None:
            study.outcome = outcomes.beginning(plan)
        tries = study.refine is not None and plan["chosen"] is not None
        move(session, study, StudyStatus.MEASURING if tries else StudyStatus.DONE, now=service.clock())
    return True


_STEPS: dict[StudyStatus, Callable[[Service, Turn], bool]] = {
    StudyStatus.QUEUED: profiling.begin,
    StudyStatus.PROFILING: profiling.collect,
    StudyStatus.SEARCHING: _search,
    StudyStatus.MEASURING: measuring.measure,
}


def _fail(service: Service, turn: Turn, why: str) -> None:
    try:
        with held(service, turn) as (session, study):
            study.error = why[:_LONGEST_ERROR]
            move(session, study, StudyStatus.FAILED, now=service.clock())
    except (LostTurnError, OperationalError) as error:
        logger.warning("study %s: its end was not written: %s", turn.study_id, type(error).__name__)


def _waiting_for(service: Service, job_id: str) -> list[str]:
    with service.database.reading() as session:
        row = session.get(JobRow, job_id)
        mine = [Study.profile_job == job_id, Study.links_job == job_id]
        if row is not None and row.study_id is not None:
            mine.append(Study.id == row.study_id)
        return list(session.scalars(select(Study.id).where(Study.status.not_in(FINAL), or_(*mine))))
