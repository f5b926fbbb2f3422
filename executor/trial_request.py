"""What is to be run? One configuration, of a model or emulated, checked before anything is launched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from executor.errors import ConfigurationError
from profiles.document import describe_faults
from tuner.configuration import Configuration, Recompute, Scaling
from tuner.operation_costs import OperationCosts
from tuner.schedules.dry_run import dry_run
from tuner.schedules.generators import find_recipe, generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.ordering import in_common_order
from tuner.schedules.program import Program
from tuner.schedules.updates import Synchronization, SyncPolicy
from tuner.schedules.validation import validate

MAX_LOCAL_RANKS = 64
"""Processes on one machine."""
MAX_SLEPT_S = 3600.0

Count = Annotated[int, Field(ge=1, le=10**6)]


def _as_tuple(value: Any) -> Any:
    """JSON has lists."""
    return tuple(map(_as_tuple, value)) if isinstance(value, list | tuple) else value


Cuts = Annotated[tuple[Count, ...], BeforeValidator(_as_tuple), Field(max_length=10_000)]
TiedStages = Annotated[tuple[tuple[int, ...], ...], BeforeValidator(_as_tuple), Field(max_length=1000)]
Slept = Annotated[float, Field(ge=0, le=MAX_SLEPT_S)]


class _Closed(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class Emulation(_Closed):
    """What stages take that only sleep: seconds of a rank's whole share, which its chunks divide."""

    forward_s: Annotated[float, Field(gt=0, le=MAX_SLEPT_S)]
    backward_s: Annotated[float, Field(gt=0, le=MAX_SLEPT_S)]
    """The whole backward."""
    weight_gradient_s: Slept | None = None
    """The part of it that split schedules may defer; half unless given."""
    recompute_s: Slept = 0.0
    """Added to every backward."""
    message_bytes: Annotated[int, Field(ge=4, le=2**31)] = 4096
    """Of an activation, and of its gradient."""
    all_reduce_s: Slept = 0.0
    """Of the gradients of one stage."""
    update_s: Slept = 0.0
    hop_s: Slept = 0.0
    """Expected from the end of a stage to its neighbour's start: part of the prediction alone."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.weight_gradient_s or 0.0) > self.backward_s:
            raise ValueError(
                f"weight_gradient_s {self.weight_gradient_s:g} is a part of backward_s, which is "
                f"{self.backward_s:g}"
            )
        return self


class TrialRequest(_Closed):
    """Everything a trial depends on."""

    schedule: str
    width: Count = 1
    depth: Count
    micro_batches: Count
    micro_batch_size: Count = 1
    scaling: Scaling = "direct"
    pipe_pairs: Count = 1
    chunks: Count | None = None
    """The schedule's own unless given."""
    partition: Cuts | None = None
    """Blocks of each stage; cut evenly unless given. What stands before and behind them goes to the ends."""
    recompute: Recompute = "none"
    sync_policy: SyncPolicy = "eager_opt"
    buckets: Annotated[int, Field(ge=1, le=1000)] = 1
    optimizer: Literal["sgd", "momentum", "adam", "adamw"] = "adam"
    optimizer_sharding: Literal["none", "replicas"] = "none"
    model: Annotated[str, Field(min_length=1, max_length=500)] | dict[str, Any] | None = None
    """A preset's or a factory's name, or {"config": ...}; else `emulate`."""
    tied: TiedStages = ()
    """Stages that share parameters, for each tied group of the model."""
    sequence_length: Count | None = None
    emulate: Emulation | None = None
    iterations: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Timed ones."""
    warm_up: Annotated[int, Field(ge=0, le=1000)] = 2
    """Iterations before the timed ones."""
    precision: Literal["float32", "bfloat16", "float16", "float64"] = "float32"
    launcher: Literal["local"] = "local"
    device: Literal["cpu", "cuda"] = "cpu"
    check: bool = False
    """Compare with one process."""
    timeout_s: Annotated[float, Field(gt=0, le=86_400 * 7)] = 600.0
    memory_limit_bytes: Annotated[int, Field(ge=1)] | None = None
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.model is None) == (self.emulate is None):
            raise ValueError("give either a model or what to emulate, not both")
        if self.check and self.emulate is not None:
            raise ValueError(
                "check compares weights, and an emulated run has none: leave it out, or run a model"
            )
        if self.ranks > MAX_LOCAL_RANKS:
            raise ValueError(
                f"width {self.width} x depth {self.depth} are {self.ranks} processes; {MAX_LOCAL_RANKS} is "
                "the most on one machine"
            )
        return self

    @property
    def ranks(self) -> int:
        """Processes, W·D."""
        return self.width * self.depth


@dataclass(frozen=True)
class PreparedTrial:
    """A request that can run."""

    request: TrialRequest
    configuration: Configuration
    program: Program
    """Lowered; of one iteration where the schedule is synchronous, else of all of them."""

    @property
    def costs(self) -> OperationCosts | None:
        """What its operations take, where that is known before they are run."""
        emulated, request = self.request.emulate, self.request
        if emulated is None:
            return None
        return OperationCosts.uniform(
            self.program,
            forward_s=emulated.forward_s,
            backward_s=emulated.backward_s + emulated.recompute_s,
            weight_gradient_s=emulated.weight_gradient_s,
            hop_latency_s=emulated.hop_s,
            update_s=emulated.update_s,
            sync_s=emulated.all_reduce_s if self.program.pipes * request.width > 1 else 0.0,
        )


def read_trial(value: dict[str, Any]) -> TrialRequest:
    """Check parsed options; raises ConfigurationError naming what is wrong."""
    try:
        return TrialRequest.model_validate(value)
    except ValidationError as error:
        raise ConfigurationError(describe_faults(error, "the trial", value=value)) from None


def prepare(request: TrialRequest) -> PreparedTrial:
    """The program that will run, run dry; raises ScheduleError where it cannot run that way."""
    recipe = find_recipe(request.schedule)
    if not recipe.synchronous:
        refuse_asynchronous(
            request.schedule,
            float16=request.precision == "float16",
            tied=len(request.tied),
            sharded=request.optimizer_sharding != "none",
        )
    generated = generate(
        request.schedule,
        depth=request.depth,
        micro_batches=request.micro_batches,
        scaling=request.scaling,
        pipe_pairs=request.pipe_pairs,
        chunks=request.chunks,
        iterations=1 if recipe.synchronous else request.warm_up + request.iterations,
    )
    validate(generated)
    _refuse_odd_halves(request)
    synchronization = Synchronization(
        policy=request.sync_policy,
        buckets=request.buckets,
        sharded=request.optimizer_sharding == "replicas",
        tied=request.tied,
    )
    program, ordered = lower(generated, Lowering(synchronization)), request.device == "cuda"
    if ordered:
        program = in_common_order(program)
    dry_run(program, "ordered" if ordered else "rendezvous")
    configuration = Configuration(
        request.schedule,
        width=request.width,
        depth=request.depth,
        micro_batch_size=request.micro_batch_size,
        micro_batches=request.micro_batches,
        recompute=request.recompute,
        scaling=request.scaling,
        pipe_pairs=request.pipe_pairs,
        chunks=program.chunks,
    )
    return PreparedTrial(request, configuration, program)


def refuse_asynchronous(
    scheme: str, *, float16: bool, tied: int, sharded: bool, max_norm: float | None = None
) -> None:
    """Raises ConfigurationError for what needs the updates of all stages at once."""
    asked = {
        f"gradient clipping (max_norm {max_norm})": max_norm is not None,
        "float16 with its loss scale": float16,
        f"{tied} group{'s' * (tied != 1)} of tied parameters": tied > 0,
        "a sharded optimizer": sharded,
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise ConfigurationError(
                f"{scheme} updates its stages at different times, and {what} would need all of them at once: "
                "leave it out, or choose a synchronous schedule"
            )


def _refuse_odd_halves(request: TrialRequest) -> None:
    if request.model is not None and request.scaling == "halving" and request.micro_batch_size % 2:
        raise ConfigurationError(
            f"halving runs backwards on halves of a micro-batch, and {request.micro_batch_size} samples have "
            "none: choose an even --micro-batch-size"
        )
