"""Which documents about studies go over the wire? Their shapes; `api.schemas` has the others."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from api.storage.tables import StudyStatus
from api.web.schemas import CountedPage, Message, Page
from tuner.messages import JobKind
from tuner.plan import Candidate, ConfigurationDocument, Plan, Rejected
from tuner.refine_request import RefineRequest
from tuner.request import PlanRequest
from tuner.trials import TrialStatus
from tuner.tuning import ModelError, TriedTrial


class StudyRequest(PlanRequest):
    """The options of a plan, and what the study is called."""

    name: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What people call the study."""
    refine: Annotated[dict[str, Any], WithJsonSchema(RefineRequest.model_json_schema())] | None = None
    """Real trials after the plan, on workers."""


class ValidModel(Message):
    """The model of a request, as far as arithmetic or a profile knows it."""

    name: str
    parameters: int
    blocks: int
    sequence_length: int
    precision: str
    attention: str


class Validation(Message):
    """A request that can be asked."""

    answered: Literal["at_once", "after_measuring"]
    """Whether workers have to measure something first."""
    measures: list[JobKind]
    """What they would be asked to do that nobody did before."""
    model: ValidModel | None
    """None where only a worker can tell what its layers are."""
    cluster: str
    accelerator: str


class ShortAnswer(Message):
    """What was chosen, in a few keys."""

    schedule: str
    width: int
    depth: int
    micro_batch_size: int
    micro_batches: int
    recompute: str
    peak_memory_bytes: int
    throughput_samples_per_s: float
    tokens_per_s: float
    mfu: float


class StudyEntry(Message):
    """A study in a list."""

    id: str
    name: str | None
    status: StudyStatus
    waiting_for: str | None
    """What a study that is not final waits for, in words."""
    model: str
    cluster: str
    devices: int
    mini_batch_size: int
    error: str | None
    """Why a study failed."""
    answer: ShortAnswer | None
    """None when nothing fits, and while there is no plan."""
    created_by: str
    created_at: datetime
    updated_at: datetime
    links: dict[str, str]
    """Addresses of the study's parts."""


class Winner(Message):
    """The fastest configuration that was measured."""

    number: int
    configuration: ConfigurationDocument
    predicted: float
    measured: float
    """Seconds of an iteration."""
    throughput_samples_per_s: float


class StudyTuning(Message):
    """What the trials of a study say so far, with the keys of `chimera tune`."""

    trials: list[TriedTrial]
    """In the order in which they were proposed; /trials tells more."""
    model_error: ModelError
    winner: Winner | None
    """None while nothing was measured."""
    model_choice: ConfigurationDocument | None
    """What the model chose before any trial."""
    configurations: int
    """Those that could be tried."""
    trials_saved: int
    """Trials that measuring every configuration would have taken beyond these."""
    device_seconds: float
    stopped: str | None
    """Why no more are made; None while the study goes on."""


class StudyDocument(StudyEntry):
    """A study with its request, its plan, and what its trials say."""

    request: dict[str, Any]
    """The request as it was sent."""
    plan: Plan | None
    """The plan as `chimera plan --json` prints it, without `search_s`; once trials were made, as they correct
    it, with the fastest measured chosen."""
    refine: RefineRequest | None
    tuning: StudyTuning | None
    """None where no trials were asked for."""


class TrialEntry(Message):
    """A trial beside its prediction."""

    number: int
    """Counted from 1, in the order in which they were proposed."""
    configuration: ConfigurationDocument
    status: TrialStatus
    predicted: float
    """Seconds of an iteration, by the model before any trial."""
    measured: float | None
    """Median seconds of an iteration, where it ran."""
    expected: dict[str, float]
    """By the model as the trials before corrected it: expected, low and high."""
    spread: dict[str, float] | None
    """Of the iterations: p10 and p90."""
    peak_memory_bytes: int | None
    """Of the fullest rank."""
    device_seconds: float
    message: str | None
    """Why it ended so, where that is not well."""
    attempt: int
    by: str
    """What proposed it: ranking, correction, sampler or retry."""
    reason: str
    job: str
    created_at: datetime
    ended_at: datetime | None
    links: dict[str, str]


class TrialPage(CountedPage[TrialEntry]):
    """A piece of a study's trials."""


class StudyPage(Page[StudyEntry]):
    """A piece of the list of studies, newest first."""


class CandidatePage(CountedPage[Candidate]):
    """A piece of a plan's candidates, fastest first."""


class RejectedPage(CountedPage[Rejected]):
    """A piece of a plan's rejected configurations."""
