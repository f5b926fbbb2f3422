"""How does a study try configurations? As many at once as its pool takes, each result correcting the next."""

from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from api.computing.asked import Asked
from api.computing.trials import OPTIONS, options
from api.jobs import workers
from api.jobs.queue import NewJob
from api.operations import metrics
from api.planning import plan_document, plan_question
from api.processes.computing import Computing
from api.service import Service
from api.storage.tables import Study, StudyStatus
from api.studies import outcomes
from api.studies import store as studies
from api.studies.events import move
from api.studies.needs import model_of_profile
from api.studies.questions import Question, accelerator_of, question_of, texts_of
from api.studies.trials import add_trial, as_row, end_trials, has_ended, read_trials, read_unended
from api.studies.turns import Turn, held
from profiles import library
from tuner.assignments import Trial, TrialConfiguration
from tuner.compressed_plans import as_asked
from tuner.compression import one_compression
from tuner.enactment import expect
from tuner.messages import JobKind
from tuner.plan import Plan
from tuner.refine_request import RefineRequest
from tuner.refinement import Budget, Decision, Proposal, refine
from tuner.request import InlineModel
from tuner.trials import Option, measured
from tuner.trials import Trial as Row

_SAMPLING = find_spec("optuna") is not None
_TIMED_S = 2.0
"""So long the timed iterations of a trial should take, by the prediction."""
_FEWEST, _MOST = 6, 60
"""Iterations of a trial."""
_REMEMBERED = 16
"""Studies whose options this process keeps: they are the same whenever they are computed."""


def measure(service: Service, turn: Turn) -> bool:
    """Write down what came back, then try what may still win; False, for there is to wait, or all is done."""
    now = service.clock()
    news = _collect(service, turn)
    with service.database.reading() as session:
        study = session.get_one(Study, turn.study_id)
        rows = [as_row(trial) for trial in read_trials(session, study.id)]
        whole, asked = question_of(session, study), RefineRequest.model_validate(study.refine)
        question = _with_one_compression(whole, study)
        model = _model(session, question)
        present = workers.connected(session, now=now)
    options = options_for(question, service.computing)
    template = _template(study, question, options, pool=asked.pool)
    able = sum(workers.fits(template, worker) for worker in present)
    decision = _decide(options, rows, asked, able=able)
    made = [(proposal, _payload(model, question, proposal)) for proposal in decision.proposals]
    plan = _corrected(service, turn, question, rows=rows) if decision.stop and measured(rows) else None
    if not (news or made or decision.stop):
        return False
    with held(service, turn) as (session, study):
        trials = read_trials(session, study.id)
        study.outcome = outcomes.outcome(options, trials, before=study.outcome, stop=decision.stop)
        study.updated_at = now
        if plan is not None:
            studies.keep_plan(study, plan)
        for proposal, payload in made:
            job = _job(template, proposal, payload)
            add_trial(session, study, job, why=outcomes.proposal(proposal), now=now)
        if decision.stop is not None:
            move(session, study, StudyStatus.DONE, now=now)
    return False


def _collect(service: Service, turn: Turn) -> bool:
    """Write down what came of jobs that have ended; whether there were any."""
    with service.database.reading() as session:
        news = has_ended(session, read_unended(session, turn.study_id))
    if news:
        with held(service, turn) as (session, study):
            ended = end_trials(session, study, read_unended(session, study.id), now=service.clock())
            statuses = [trial.status for trial in ended]
        # Once they are committed.
        for status in statuses:
            metrics.TRIALS.labels(status.value).inc()
    return news


def _decide(options: tuple[Option, ...], rows: list[Row], asked: RefineRequest, *, able: int) -> Decision:
    """What to try now, as many trials at once as workers are able to run one; no end while one runs."""
    running = sum(not row.ended for row in rows)
    free = max(1, able) - running
    if free <= 0:
        return Decision(waiting_for=running)
    budget = Budget(asked.trials, asked.device_seconds)
    decided = refine(options, rows, seed=asked.seed, budget=budget, count=free, sampling=_SAMPLING)
    return replace(decided, stop=None) if running else decided


def _with_one_compression(question: Question, study: Study) -> Question:
    """With that of all its trials: what the model chose before any, of those that are allowed."""
    chosen = (study.outcome or {}).get("compression") or str(one_compression(question.request.compression))
    return replace(question, request=question.request.model_copy(update={"compression": chosen}))


def _corrected(service: Service, turn: Turn, question: Question, *, rows: list[Row]) -> dict[str, Any]:
    """The plan as the trials leave it, of everything that could be tried: the fastest measured is chosen."""
    everything = question.request.model_copy(update={"search": "exhaustive"})
    made = plan_document(plan_question(replace(question, request=everything), service, trials=rows))
    with service.database.reading() as session:
        before = studies.read_plan(session, turn.study_id)
    return as_asked(before, Plan.model_validate(made)).model_dump(mode="json")


def options_for(question: Question, computing: Computing) -> tuple[Option, ...]:
    """What may be tried, fastest first by the model; the same question is computed once for a process."""
    return _options(computing, **texts_of(question))


@lru_cache(maxsize=_REMEMBERED)
def _options(
    computing: Computing, *, request: str, profile: str | None, calibration: str | None
) -> tuple[Option, ...]:
    asked = Asked(request=request, profile=profile, calibration=calibration)
    return OPTIONS.validate_json(computing.call(options, asked).content)


def _template(study: Study, question: Question, options: tuple[Option, ...], *, pool: str) -> NewJob:
    """A trial on as many devices as any of them takes."""
    return NewJob(
        kind=JobKind.TRIAL,
        payload={},
        created_by=study.created_by,
        study_id=study.id,
        pool=pool,
        devices=max((o.configuration.width * o.configuration.depth for o in options), default=1),
        accelerator=accelerator_of(question.request),
    )


def _job(template: NewJob, proposal: Proposal, payload: dict[str, Any]) -> NewJob:
    devices = proposal.configuration.width * proposal.configuration.depth
    return NewJob(**vars(template) | {"devices": devices, "payload": payload})


def _model(session: Any, question: Question) -> str | InlineModel:
    """What a worker builds: a profile alone has no weights."""
    model = question.request.model
    if isinstance(model, InlineModel) and model.profile is not None and question.profile is not None:
        return model_of_profile(session, question.profile)
    return model


def _payload(model: str | InlineModel, question: Question, proposal: Proposal) -> dict[str, Any]:
    """The trial as the worker reads it, cut as the plan cuts."""
    request, profile = question.request, question.profile
    expected = expect(request, proposal.configuration, library, profile=profile)
    described = profile.description if profile else None
    return Trial(
        model=model,
        sequence_length=described.sequence_length if described else request.sequence_length,
        precision=described.precision if described else request.precision,
        accelerator=accelerator_of(request),
        configuration=TrialConfiguration(**proposal.configuration.document()),
        stage_layers=expected.stage_layers,
        optimizer=request.optimizer,
        optimizer_sharding=request.optimizer_sharding,
        compression=request.compression,
        iterations=min(_MOST, max(_FEWEST, round(_TIMED_S / proposal.predicted_s))),
    ).model_dump(mode="json", exclude_none=True)
