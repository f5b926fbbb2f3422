"""What is a worker asked to do, and what does it answer? A payload and a result for each kind of job."""

import json
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from profiles.cluster import Link
from profiles.document import (
    FIRST_FAULT,
    Attention,
    Count,
    Name,
    Part,
    PositiveCount,
    PositiveSeconds,
    Precision,
    Seconds,
    describe_faults,
)
from profiles.timings import Profile
from tuner.configuration import Configuration, Recompute, Scaling
from tuner.emulation import Emulation
from tuner.errors import RequestError
from tuner.messages import JobKind, Line, Pool
from tuner.request import MAX_SEQUENCE, InlineModel, Optimizer

_Sizes = Annotated[
    tuple[Annotated[int, Field(ge=1, le=10**8)], ...], FIRST_FAULT, Field(min_length=1, max_length=100)
]
DEFAULT_PRECISION: Precision = "bfloat16"
DEFAULT_ATTENTION: Attention = "flash"
"""Of a config.json, which does not say it."""

_Repeats = Annotated[int, Field(ge=1, le=10_000)]


class ModelAssignment(Part):
    """Which model is meant, and in which precision; None means as the preset or the default says."""

    model: Name | InlineModel
    """A preset's name or {"config": {...}}; never a path."""
    sequence_length: Annotated[int, Field(ge=1, le=MAX_SEQUENCE)] | None = None
    precision: Precision | None = None
    attention: Attention | None = None
    accelerator: Name | None = None
    """Data sheet of the devices to use; None lets the worker choose."""


class ProfileModel(ModelAssignment):
    """Measure time and memory of every layer; the result is a profile document."""

    micro_batch_sizes: _Sizes = (1, 2, 4, 8)
    optimizer: Optimizer = "adam"
    processes: Annotated[int, Field(ge=1, le=64)] = 1
    """So many measure at once on processors, as ranks that share their memory and caches find it."""


class ProfileJobRequest(ProfileModel):
    """The body of POST /v1/profile-jobs: what to measure, and on which workers."""

    pool: Pool = "default"
    """The pool of workers that is asked."""
    measure_again: bool = False
    """Measure also what was measured before."""
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    """The highest is done first; of equal ones the oldest."""
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 3
    """How often a worker may fail or vanish before the job fails."""


class ProfileLinks(Part):
    """Measure the links between processes, and fit latency and bandwidth."""

    devices: Annotated[int, Field(ge=2, le=10_000)] = 2
    message_bytes: _Sizes | None = None
    """Sizes to send; None lets the worker choose."""


class TrialConfiguration(Part):
    """The configuration that a trial runs; keys as in a plan."""

    schedule: Name
    width: PositiveCount
    depth: PositiveCount
    micro_batch_size: PositiveCount
    micro_batches: PositiveCount
    recompute: Recompute = "none"
    scaling: Scaling = "direct"
    pipe_pairs: PositiveCount = 1
    chunks: PositiveCount = 1

    def configuration(self) -> Configuration:
        """As the tuner works with it."""
        return Configuration(**self.model_dump())


class Trial(ModelAssignment):
    """Run a few real iterations of one configuration."""

    number: Count = 0
    """Of the trial in its study."""
    emulate: Emulation | None = None
    """Sleep for so long instead of running the layers of the model, which is then not read."""
    configuration: TrialConfiguration
    stage_layers: Annotated[tuple[Count, ...], FIRST_FAULT] | None = None
    """Blocks of each stage; None cuts as a plan does."""
    gradient_precision: Literal["float32", "same"] = "float32"
    optimizer: Optimizer = "adam"
    optimizer_sharding: Literal["none", "replicas"] = "none"
    compression: Annotated[str, Field(max_length=50)] = "none"
    """Of the gradients that replicas exchange."""
    rank_order: Literal["pipe_major", "data_major"] = "pipe_major"
    iterations: _Repeats = 10
    warm_up: Annotated[int, Field(ge=0, le=10_000)] = 2
    seed: Count = 0
    memory_limit_bytes: PositiveCount | None = None
    """Of each rank; None is what the device has."""
    timeout_s: PositiveSeconds = 600.0
    trace: bool = True
    """Attach the timeline of an iteration."""


class Spread(Part):
    """The iterations of a trial, without the warm-up."""

    median: PositiveSeconds
    p10: PositiveSeconds
    p90: PositiveSeconds


class ProfileModelResult(Part):
    """The profile, which the service keeps under its fingerprint."""

    profile: Profile


class MeasuredLink(Part):
    """A link as it was measured, and how far the fit is from the measurements."""

    scope: Literal["node", "network"]
    """Inside a node, or between two."""
    link: Link
    residual: Seconds
    """Largest relative difference between a measured time and the fitted one."""
    points: Annotated[tuple[tuple[Count, PositiveSeconds], ...], FIRST_FAULT, Field(max_length=1_000)] = ()
    """Bytes and seconds."""


class ProfileLinksResult(Part):
    """What was measured."""

    links: Annotated[tuple[MeasuredLink, ...], FIRST_FAULT, Field(min_length=1, max_length=10)]


class TrialResult(Part):
    """What running the configuration gave."""

    status: Literal["ok", "out_of_memory", "failed", "timed_out"]
    measured_iteration_s: Spread | None = None
    peak_memory_bytes: Annotated[tuple[Count, ...], FIRST_FAULT, Field(max_length=100_000)] = ()
    """Of each rank, from nothing: what Python and torch take is in it, as in a plan."""
    software: Annotated[str, Field(max_length=500)] = ""
    rank: Count | None = None
    """The rank that failed first."""
    operation: Annotated[str, Field(max_length=200)] | None = None
    micro_batch: Count | None = None
    wanted_bytes: Count | None = None
    """What could not be allocated, when memory ran out."""
    elapsed_s: Seconds | None = None
    """Of the whole trial; its devices were held for so long."""
    iterations_kept: Count | None = None
    """Those that nothing disturbed; the spread is of these where `machine_quiet`, else of all."""
    machine_quiet: bool | None = None
    """Whether a prediction can be compared with the times."""
    exit_code: int | None = None
    signal: int | None = None
    message: Line | None = None

    @model_validator(mode="after")
    def _timed(self) -> Self:
        if self.status == "ok" and self.measured_iteration_s is None:
            raise ValueError("status is ok but there is no measured_iteration_s")
        return self


Assignment = ProfileModel | ProfileLinks | Trial
Result = ProfileModelResult | ProfileLinksResult | TrialResult

ASSIGNMENTS: dict[JobKind, type[Assignment]] = {
    JobKind.PROFILE_MODEL: ProfileModel,
    JobKind.PROFILE_LINKS: ProfileLinks,
    JobKind.TRIAL: Trial,
}
RESULTS: dict[JobKind, type[Result]] = {
    JobKind.PROFILE_MODEL: ProfileModelResult,
    JobKind.PROFILE_LINKS: ProfileLinksResult,
    JobKind.TRIAL: TrialResult,
}

Piece = TypeVar("Piece", bound=Part)


def read_assignment(kind: JobKind, payload: dict[str, Any]) -> Assignment:
    """The payload of a job with types; raises RequestError naming the faults."""
    return read_piece(ASSIGNMENTS[kind], payload, name=f"the payload of a {kind} job")


def read_result(kind: JobKind, result: dict[str, Any]) -> Result:
    """The result of a job with types; raises RequestError naming the faults."""
    return read_piece(RESULTS[kind], result, name=f"the result of a {kind} job")


def read_piece(piece: type[Piece], value: Any, *, name: str) -> Piece:
    """Check parsed JSON; raises RequestError naming the faults."""
    if not isinstance(value, dict):
        raise RequestError(f"{name} must be a JSON object")
    try:
        return piece.model_validate_json(json.dumps(value))
    except ValidationError as error:
        raise RequestError(describe_faults(error, name, value=value)) from None
