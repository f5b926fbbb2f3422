"""Can a trial run that way? Its program, checked and run dry before anything is launched."""

from __future__ import annotations

from dataclasses import dataclass, replace

from executor.compression.refusal import refuse_compression
from executor.errors import ConfigurationError
from executor.running.programs import lowered
from executor.trials.trial_request import TrialRequest
from executor.weights.updates_at_once import refuse_asynchronous
from tuner.compression import read_compression
from tuner.configuration import Configuration
from tuner.operation_costs import OperationCosts
from tuner.schedules.dry_run import dry_run
from tuner.schedules.generators import find_recipe, program_of
from tuner.schedules.program import Program
from tuner.schedules.validation import validate

MAX_PASSAGES = 200_000
"""Forwards in a program that is run."""


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
        costs = OperationCosts.uniform(
            self.program,
            forward_s=emulated.forward_s,
            backward_s=emulated.backward_s + emulated.recompute_s,
            weight_gradient_s=emulated.weight_gradient_s,
            hop_latency_s=emulated.hop_s,
            update_s=emulated.update_s,
            sync_s=emulated.all_reduce_s if self.program.pipes * request.width > 1 else 0.0,
        )
        return replace(costs, lanes=emulated.lanes)


def prepare(request: TrialRequest) -> PreparedTrial:
    """The program that will run, run dry; raises ScheduleError where it cannot run that way."""
    recipe = find_recipe(request.schedule)
    if not recipe.synchronous:
        _refuse_check(request)
        refuse_asynchronous(
            request.schedule,
            float16=request.precision == "float16",
            tied=len(request.tied),
            sharded=request.optimizer_sharding != "none",
        )
    iterations = 1 if recipe.synchronous else request.warm_up + request.iterations
    _refuse_huge(request, iterations)
    _refuse_chunks(request)
    _refuse_odd_halves(request)
    configuration = configuration_of(request)
    compression = read_compression(request.compression)
    refuse_compression(compression, configuration, sharding=request.optimizer_sharding)
    generated = program_of(configuration, iterations=iterations)
    validate(generated)
    ordered = request.device == "cuda"
    program = lowered(
        generated,
        policy=request.sync_policy,
        buckets=request.buckets,
        sharded=request.optimizer_sharding == "replicas",
        tied=request.tied,
        ordered=ordered,
    )
    dry_run(program, "ordered" if ordered else "rendezvous")
    return PreparedTrial(request, configuration, program)


def configuration_of(request: TrialRequest) -> Configuration:
    """The layout that is asked for; chunks are the schedule's own unless given."""
    return Configuration(
        request.schedule,
        width=request.width,
        depth=request.depth,
        micro_batch_size=request.micro_batch_size,
        micro_batches=request.micro_batches,
        recompute=request.recompute,
        scaling=request.scaling,
        pipe_pairs=request.pipe_pairs,
        chunks=request.chunks or find_recipe(request.schedule).chunks,
    )


def _refuse_check(request: TrialRequest) -> None:
    if request.check and request.depth > 1:
        raise ConfigurationError(
            f"{request.schedule} reads older weights by its rule, and does not learn as one process does: "
            "leave the check out, or choose a synchronous schedule"
        )


def _refuse_huge(request: TrialRequest, iterations: int) -> None:
    """Before a program is made, which takes its time."""
    stages = request.depth * (request.chunks or find_recipe(request.schedule).chunks)
    passages = stages * request.micro_batches * iterations
    if passages > MAX_PASSAGES:
        together = f" x {iterations:,} iterations" if iterations > 1 else ""
        asked = f"{stages:,} stages x {request.micro_batches:,} micro-batches{together}"
        raise ConfigurationError(
            f"{asked} are {passages:,} forwards in one program; {MAX_PASSAGES:,} is the most: take fewer, "
            "larger micro-batches"
        )


def _refuse_chunks(request: TrialRequest) -> None:
    recipe = find_recipe(request.schedule)
    if request.chunks not in {None, recipe.chunks} and "chunks" not in recipe.options:
        raise ConfigurationError(
            f"{request.schedule} has {recipe.chunks} stages on a rank and pipe, not {request.chunks}: leave "
            "--chunks out, or choose interleaved"
        )


def _refuse_odd_halves(request: TrialRequest) -> None:
    if request.model is not None and request.scaling == "halving" and request.micro_batch_size % 2:
        raise ConfigurationError(
            f"halving runs backwards on halves of a micro-batch, and {request.micro_batch_size} samples have "
            "none: choose an even --micro-batch-size"
        )
