"""What must be measured before a study can be planned and tried, and could a worker do it?

A study that may run trials is planned on layers and links that were measured where they run; one that may
not needs a worker only for an architecture that arithmetic does not know.
"""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from api.documents.store import find_document
from api.jobs import equal_jobs, intake, workers
from api.jobs.queue import NewJob
from api.service import Service
from api.storage.tables import DocumentKind, JobRow
from api.studies.questions import accelerator_of, cluster_of, named_profile, stored_profile
from api.web.problems import InvalidProblem
from profiles import library
from profiles.timings import Profile
from tuner.assignments import DEFAULT_ATTENTION, ProfileJobRequest, ProfileModel, read_piece
from tuner.errors import UnsupportedModelError
from tuner.families import FAMILIES
from tuner.inputs import gather
from tuner.messages import JobKind, WorkerInventory
from tuner.refine_request import RefineRequest
from tuner.request import InlineModel, PlanRequest

DEFAULT_POOL = "default"
_MOST_PROCESSES = 64
_SIZES = (1, 2, 4, 8, 16)
"""Micro-batch sizes that are profiled, up to the mini-batch."""


@dataclass(frozen=True)
class Needs:
    """Jobs that a study needs, whether or not their answers are known already."""

    unknown: str | None = None
    """Why the model has to be measured, where arithmetic does not know it."""
    profile: NewJob | None = None
    links: NewJob | None = None
    trial: NewJob | None = None
    """A trial on all devices, for what a worker must have."""

    @property
    def jobs(self) -> list[NewJob]:
        """Those that there are, the most demanding first."""
        return [job for job in (self.trial, self.profile, self.links) if job is not None]


def needs_of(request: PlanRequest, refine: RefineRequest | None, *, caller: str) -> Needs:
    """What a study needs; raises DocumentError or InvalidProblem for what cannot be measured."""
    unknown = why_unknown(request)
    pool = refine.pool if refine else DEFAULT_POOL
    measured = named_profile(request) is None and (refine is not None or unknown is not None)
    return Needs(
        unknown=unknown,
        profile=_profile_job(request, pool, caller=caller, processes=request.devices if refine else 1)
        if measured
        else None,
        links=intake.links_job(pool=pool, caller=caller) if refine and _links_are_guessed(request) else None,
        trial=NewJob(
            kind=JobKind.TRIAL,
            payload={},
            created_by=caller,
            pool=pool,
            devices=request.devices,
            accelerator=accelerator_of(request),
        )
        if refine
        else None,
    )


def why_unknown(request: PlanRequest) -> str | None:
    """Why only a worker can tell what the layers of the model are; None where arithmetic can.

    Raises TunerError or DocumentError for what cannot be asked in any case.
    """
    if named_profile(request):
        return None
    try:
        gather(request, library)
    except UnsupportedModelError as error:
        if not is_unknown_architecture(request):
            raise
        return str(error)
    return None


def is_unknown_architecture(request: PlanRequest) -> bool:
    """Whether only a worker can tell what the layers of the model are."""
    config = request.model.config if isinstance(request.model, InlineModel) else None
    kind = (config or {}).get("model_type")
    return isinstance(kind, str) and bool(kind) and kind not in FAMILIES


def check_workers(session: Session, needs: Needs, service: Service) -> None:
    """Raise InvalidProblem where something is needed that no connected worker could do."""
    present = workers.connected(session, now=service.clock())
    for job in needs.jobs:
        if known_answer(session, job) is not None or any(workers.fits(job, worker) for worker in present):
            continue
        if service.expects_worker and job.pool == DEFAULT_POOL and not _of_pool(job.pool, present):
            continue
        missing = _missing(job, present)
        if needs.unknown is None:
            raise InvalidProblem(f"refine: {missing}, or leave refine out")
        raise InvalidProblem(
            f"{needs.unknown.rstrip('. ')}. {missing}; or run `chimera profile` where the model can be "
            'built, post the profile to /v1/profiles, and name it here: "model": {"profile": id}'
        )


def known_answer(session: Session, job: NewJob) -> JobRow | None:
    """The job that has answered already, or a more or less thorough one that measured the same."""
    equal = equal_jobs.find_equal(session, job)
    if equal is not None and equal.finished_at is not None:
        return equal
    for row in equal_jobs.find_measured(session, job):
        profile = _measured_profile(session, row)
        if profile is not None and profile.timings.accelerator == job.accelerator:
            return row
    return None


def check_trials(session: Session, request: PlanRequest) -> None:
    """Raise InvalidProblem for what a trial cannot run."""
    if request.rank_order != "pipe_major":
        raise InvalidProblem(f"rank_order: a trial has no {request.rank_order!r}; leave it or refine out")
    profile = stored_profile(session, named_profile(request))
    is_known = profile is not None or why_unknown(request) is None
    asked = gather(request, library, profile=profile).request if is_known else request
    if asked.gradient_precision != "float32":
        raise InvalidProblem("gradient_precision: trials keep float32 gradients; leave it or refine out")
    if profile is not None:
        model_of_profile(session, profile)
    _check_attention(session, request, profile)


def model_of_profile(session: Session, profile: Profile) -> str | InlineModel:
    """The preset or config.json that a stored profile is of, which a trial builds; raises InvalidProblem."""
    identifier = profile.fingerprint()
    row = equal_jobs.find_by_profile(session, identifier)
    if row is None:
        raise InvalidProblem(
            f"model: the profile {identifier[:12]}... was posted, and a profile has no layers to run: name "
            'the preset or give {"config": {...}} instead, and the service measures it where trials run, '
            "or leave refine out"
        )
    return read_piece(ProfileModel, row.payload, name="the job that measured it").model


def _check_attention(session: Session, request: PlanRequest, profile: Profile | None) -> None:
    """A trial runs a model with the attention that is the default of it."""
    model = model_of_profile(session, profile) if profile else request.model
    attention = profile.description.attention if profile else request.attention
    usual = library.load_model_preset(model).attention if isinstance(model, str) else DEFAULT_ATTENTION
    if attention not in {None, usual}:
        raise InvalidProblem(f"attention: a trial of this model has no {attention!r}, only {usual!r}")


def _links_are_guessed(request: PlanRequest) -> bool:
    """Whether a worker could measure what the cluster's document only assumes: links between processors."""
    link = cluster_of(request).node.link
    between_processors = accelerator_of(request) == intake.PROCESSOR and request.devices > 1
    return between_processors and link is not None and link.provenance != "measured"


def _profile_job(request: PlanRequest, pool: str, *, caller: str, processes: int = 1) -> NewJob:
    accelerator = accelerator_of(request)
    asked = ProfileJobRequest(
        model=request.model,
        sequence_length=request.sequence_length,
        precision=request.precision,
        attention=request.attention,
        accelerator=accelerator,
        processes=min(processes, _MOST_PROCESSES) if accelerator == intake.PROCESSOR else 1,
        micro_batch_sizes=tuple(size for size in _SIZES if size <= request.mini_batch_size),
        optimizer=request.optimizer,
        pool=pool,
    )
    return intake.profile_job(asked, caller=caller)


def _measured_profile(session: Session, row: JobRow) -> Profile | None:
    stored = find_document(session, DocumentKind.PROFILE, str((row.result or {}).get("profile")))
    return Profile.from_value(stored.document, name="the stored profile") if stored else None


def _of_pool(pool: str, present: list[WorkerInventory]) -> list[WorkerInventory]:
    return [worker for worker in present if pool in worker.pools]


def _missing(job: NewJob, present: list[WorkerInventory]) -> str:
    """What is wanted, what there is, and what to do."""
    of_pool = _of_pool(job.pool, present)
    wanted = f"a worker of pool {job.pool!r} with {job.devices} x {job.accelerator} for {job.kind} jobs"
    start = f"start one with `chimera worker --pool {job.pool}`"
    if not of_pool:
        return (
            f"No worker is connected to this service that could measure: this needs {wanted}, and there is "
            f"none of that pool; {start}"
        )
    has = "; ".join(
        f"{worker.name} has {', '.join(f'{group.count} x {group.accelerator}' for group in worker.devices)}"
        for worker in of_pool[:5]
    )
    return f"this needs {wanted}, and of the {len(of_pool)} connected none can: {has}; {start}"
