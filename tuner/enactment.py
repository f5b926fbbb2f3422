"""How would one configuration of a request run? Simulated by itself, without a search."""

from dataclasses import dataclass, replace

import numpy as np

from profiles.timings import Profile
from tuner.configuration import Configuration
from tuner.errors import RequestError, TooLongError
from tuner.evaluated import Evaluated, Variant
from tuner.evaluation import Evaluator
from tuner.held_memory import HeldMemory, held_memory
from tuner.inputs import Library, gather, taken_elsewhere
from tuner.memory import ParameterBytes
from tuner.operation_costs import OperationCosts
from tuner.plan import Candidate, Plan
from tuner.rehearsal import Rehearsal, iterations_of
from tuner.request import PlanRequest
from tuner.schedules import Scheme, find_scheme
from tuner.space import Layout
from tuner.timeline import Timeline

MOST_OPERATIONS = 65_536
"""Forwards and backwards of the longest program that is simulated for a picture."""


@dataclass(frozen=True)
class Expectation:
    """What a run of one configuration should find."""

    costs: OperationCosts
    """Of its operations; tied parameters are in the collectives of their stages."""
    stage_layers: tuple[int, ...]
    """Blocks of each stage."""
    tied: tuple[tuple[int, ...], ...]
    """Stages that share parameters, for each tied group."""
    source: str
    """Where the times of the layers come from."""
    gradient_bytes: int = 0
    """Of the stage with most."""
    notes: tuple[str, ...] = ()
    """What is doubtful in the times of the layers, extrapolated or estimated, one sentence each."""


@dataclass(frozen=True)
class Enacted:
    """One configuration over time, and what its ranks hold meanwhile."""

    timeline: Timeline
    held: HeldMemory


def expect(
    request: PlanRequest,
    configuration: Configuration,
    library: Library,
    *,
    profile: Profile | None = None,
) -> Expectation:
    """How one configuration of a request would be cut, and what its operations would take.

    Raises RequestError where the configuration is not legal.
    """
    inputs = gather(request, library, profile=profile)
    evaluator = Evaluator(inputs)
    evaluated = _evaluate(evaluator, configuration)
    sources = evaluator.layers.sources([configuration.micro_batch_size])
    costs, stages = Rehearsal(evaluator).costs(evaluated, 0), evaluated.stages
    tied = tuple(tuple(np.flatnonzero(member[0]).tolist()) for _, member in stages.tied)
    return Expectation(
        _run(costs, evaluator, evaluated, tied=len(tied)),
        stages.counts[0],
        tied,
        sources.text,
        int(stages.all_parameters.max() * ParameterBytes.of(evaluator.inputs.request).gradients),
        (*sources.notes, *taken_elsewhere(profile, inputs.accelerator)),
    )


def enact_chosen(
    request: PlanRequest, plan: Plan, library: Library, *, profile: Profile | None = None
) -> Timeline | None:
    """The simulated iteration of what `plan`, the answer to `request`, chose; None where nothing was chosen.

    Of an asynchronous schedule it is several iterations. Raises as `enact` does.
    """
    if plan.chosen is None:
        return None
    return enact_candidate(request, plan.chosen, library, profile=profile).timeline


def enact_candidate(
    request: PlanRequest, candidate: Candidate, library: Library, *, profile: Profile | None = None
) -> Enacted:
    """The simulated iteration of a candidate of an answer to `request`; raises as `enact` does."""
    request = request.model_copy(update={"compression": candidate.compression})
    return enact_with_memory(request, configuration_of(candidate), library, profile=profile)


def enact(
    request: PlanRequest,
    configuration: Configuration,
    library: Library,
    *,
    profile: Profile | None = None,
) -> Timeline:
    """The simulated iteration of one configuration; its mini-batch is that of the request.

    Raises TooLongError beyond MOST_OPERATIONS, RequestError where the configuration is not legal.
    """
    return enact_with_memory(request, configuration, library, profile=profile).timeline


def enact_with_memory(
    request: PlanRequest,
    configuration: Configuration,
    library: Library,
    *,
    profile: Profile | None = None,
) -> Enacted:
    """As `enact`, with what the ranks hold."""
    count = operations(configuration)
    if count > MOST_OPERATIONS:
        raise TooLongError(
            f"the timeline of D={configuration.depth:,} ranks and N={configuration.micro_batches:,} "
            f"micro-batches has {count:,} forwards and backwards, and at most {MOST_OPERATIONS:,} are "
            "simulated for one: pin a larger micro-batch or a smaller depth to see a timeline"
        )
    evaluator = Evaluator(gather(request, library, profile=profile))
    evaluated = _evaluate(evaluator, configuration)
    return Enacted(Rehearsal(evaluator).timeline(evaluated, 0), held_memory(evaluated))


def hold(
    request: PlanRequest,
    configuration: Configuration,
    library: Library,
    *,
    profile: Profile | None = None,
) -> HeldMemory:
    """What the ranks of one configuration hold; raises RequestError where it is not legal."""
    return held_memory(_evaluate(Evaluator(gather(request, library, profile=profile)), configuration))


def configuration_of(candidate: Candidate) -> Configuration:
    """The configuration that a candidate of a plan stands for."""
    return Configuration(
        schedule=candidate.schedule,
        width=candidate.width,
        depth=candidate.depth,
        micro_batch_size=candidate.micro_batch_size,
        micro_batches=candidate.micro_batches,
        recompute=candidate.recompute,
        scaling=candidate.scaling,
        pipe_pairs=candidate.pipe_pairs,
        chunks=candidate.chunks,
    )


def operations(configuration: Configuration) -> int:
    """Forwards and backwards of the program: 2·D·v·N an iteration, twice as many where they are halved."""
    passes = 2 * configuration.depth * configuration.chunks * configuration.micro_batches
    return passes * iterations_of(configuration.schedule) * (2 if configuration.scaling == "halving" else 1)


def _run(costs: OperationCosts, evaluator: Evaluator, evaluated: Evaluated, *, tied: int) -> OperationCosts:
    """What the own runtime does otherwise than frameworks that a plan stands for.

    Tied parameters have a collective of their own; their bytes are in those of their stages. And
    recompute="layer" runs the head, the loss and the embedding again as well.
    """
    variant, stages = evaluated.variant, evaluated.stages
    network = evaluator.network(variant.layout)
    copies = len(variant.scheme.placement(variant.layout.depth, variant.pipe_pairs))
    alone, beside = (
        links.all_reduce_s(np.zeros(tied), copies) for links in (network, network.beside_computation)
    )
    again = stages.recomputed_forward_s["stage"][0] - stages.recomputed_forward_s["layer"][0]
    extra = again if variant.recompute == "layer" else np.zeros_like(again)
    return replace(
        costs,
        backward_s=costs.backward_s + extra,
        recompute_s=costs.recompute_s + extra,
        sync_s=np.append(costs.sync_s, alone),
        sync_beside_s=None if costs.sync_beside_s is None else np.append(costs.sync_beside_s, beside),
        compress_s=np.append(costs.compress_s, np.zeros(tied)),
    )


def _evaluate(evaluator: Evaluator, configuration: Configuration) -> Evaluated:
    """The configuration alone, at its micro-batch size."""
    variant = Variant(
        scheme=find_scheme(configuration.schedule),
        layout=Layout(configuration.width, configuration.depth),
        scaling=configuration.scaling,
        pipe_pairs=configuration.pipe_pairs,
        recompute=configuration.recompute,
    )
    asked, blocks = evaluator.inputs.request, len(evaluator.inputs.description.blocks)
    possible = (
        configuration.mini_batch_size == asked.mini_batch_size
        and configuration.stages <= blocks
        and variant.scheme.illegal_depth(configuration.depth) is None
    )
    sizes = np.array([configuration.micro_batch_size], dtype=np.int64)
    evaluated = evaluator.evaluate(variant, sizes) if possible else None
    if evaluated is None:
        raise RequestError(
            f"{configuration} is no configuration of {blocks} blocks and a mini-batch of "
            f"{asked.mini_batch_size:,}{_reason(configuration, variant.scheme, blocks)}"
        )
    return evaluated


def _reason(configuration: Configuration, scheme: Scheme, blocks: int) -> str:
    """Why, where the number of stages or the schedule says."""
    if configuration.stages > blocks:
        return f": its {configuration.stages} stages need one each"
    reason = scheme.illegal_depth(configuration.depth) or scheme.illegal(
        configuration.depth,
        configuration.micro_batches,
        scaling=configuration.scaling,
        pipe_pairs=configuration.pipe_pairs,
    )
    return f": {reason}" if reason else ""
