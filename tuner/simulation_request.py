"""What is asked of a simulation: a schedule and what equal stages cost; the options of `chimera simulate`."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from profiles.document import describe_faults
from tuner.configuration import Scaling
from tuner.errors import RequestError
from tuner.operation_costs import OperationCosts
from tuner.schedules.generators import StageTimes, find_recipe, generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.program import Program
from tuner.schedules.updates import Synchronization, SyncPolicy

MAX_OPERATIONS = 4_000_000
"""Operations of a program, which take some 1.3 kB each."""

MAX_DEPTH = 4096
"""Ranks of a program: there is a link from each to each."""

Count = Annotated[int, Field(ge=1)]
Cost = Annotated[float, Field(ge=0, le=1e12)]
PositiveCost = Annotated[float, Field(ge=1e-12, le=1e12)]
"""Bounded below too: what is divided by them must stay finite."""


class SimulationRequest(BaseModel):
    """Everything a simulation depends on; costs are times, in any unit, of a rank's whole share."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    schedule: str
    depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)]
    """Pipeline ranks, D."""
    micro_batches: Count
    """Micro-batches of an iteration, N."""
    scaling: Scaling = "direct"
    """What Chimera does when N > D."""
    pipe_pairs: Count = 1
    """Chimera runs 2f pipes."""
    chunks: Count | None = None
    """Stages per rank and pipe; the schedule's own unless given."""
    pending: Count | None = None
    """Weight gradients that may wait on a rank of chimera_split; D/2 unless given."""
    iterations: Count = 1
    forward: PositiveCost = 1.0
    """Forward of one micro-batch on one rank; chunks share it."""
    backward: PositiveCost = 2.0
    """Whole backward of one micro-batch on one rank."""
    weight_gradient: Cost | None = None
    """The part of `backward` that split schedules may defer; half of it unless given."""
    hop_latency: Cost = 0.0
    """From the end of a stage to its neighbour's start on another rank."""
    sync_time: Cost = 0.0
    """All-reduce of one stage's gradients."""
    sync_policy: SyncPolicy = "eager_opt"
    """When a rank starts its all-reduces."""
    buckets: Count = 1
    """Pieces of an all-reduce."""
    update_time: Cost = 0.0
    """Optimizer step of one stage."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.deferred > self.backward:
            raise ValueError(
                f"weight_gradient {self.deferred:g} is a part of backward, which is {self.backward:g}"
            )
        return self

    @property
    def deferred(self) -> float:
        """Time of the weight gradient."""
        return self.backward / 2 if self.weight_gradient is None else self.weight_gradient


def read_simulation(value: dict[str, Any]) -> SimulationRequest:
    """Check parsed options; raises RequestError naming them, and ScheduleError for an unknown schedule."""
    try:
        request = SimulationRequest.model_validate(value)
    except ValidationError as error:
        raise RequestError(describe_faults(error, "the simulation", value=value)) from None
    _refuse_huge(request)
    return request


def prepare(request: SimulationRequest) -> tuple[Program, OperationCosts]:
    """The lowered program, and its costs; raises ScheduleError where the schedule cannot run that way."""
    takes_times = "times" in find_recipe(request.schedule).options
    generated = generate(
        request.schedule,
        depth=request.depth,
        micro_batches=request.micro_batches,
        scaling=request.scaling,
        pipe_pairs=request.pipe_pairs,
        chunks=request.chunks,
        pending=request.pending,
        iterations=request.iterations,
        times=_times(request) if takes_times else None,
    )
    synchronization = Synchronization(policy=request.sync_policy, buckets=request.buckets)
    program = lower(generated, Lowering(synchronization))
    costs = OperationCosts.uniform(
        program,
        forward_s=request.forward,
        backward_s=request.backward,
        weight_gradient_s=request.deferred,
        hop_latency_s=request.hop_latency,
        update_s=request.update_time,
        sync_s=request.sync_time,
    )
    return program, costs


def _times(request: SimulationRequest) -> StageTimes:
    """Of every stage, for a schedule that places weight gradients by simulated times."""
    if not 0 < request.deferred < request.backward:
        raise RequestError(
            f"{request.schedule} splits the backward: weight_gradient must lie between 0 and backward "
            f"{request.backward:g}, and is {request.deferred:g}"
        )
    stages = request.depth
    return StageTimes(
        forward=[request.forward] * stages,
        input_gradient=[request.backward - request.deferred] * stages,
        weight_gradient=[request.deferred] * stages,
        hop=request.hop_latency,
    )


def _refuse_huge(request: SimulationRequest) -> None:
    """Count before anything is made: at most F, I and W of everything, and the collectives and updates."""
    recipe = find_recipe(request.schedule)
    stages = request.depth * (request.chunks or recipe.chunks)
    compute = stages * request.micro_batches * (3 if recipe.splits_backward else 2)
    rounds = request.micro_batches if recipe.updates == "micro_batch" else 1
    copies = recipe.replicas * request.pipe_pairs
    operations = request.iterations * (compute + rounds * copies * stages * (request.buckets + 1))
    if operations > MAX_OPERATIONS:
        raise RequestError(
            f"{request.schedule} with D = {request.depth:,}, N = {request.micro_batches:,} and "
            f"{request.iterations:,} iterations has up to {operations:,} operations; {MAX_OPERATIONS:,} is "
            "the most: choose smaller numbers"
        )
