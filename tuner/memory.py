"""How much memory does each rank need at its peak, part by part?"""

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal

import numpy as np

from profiles.document import Precision
from tuner.configuration import Recompute
from tuner.request import Optimizer, PlanRequest
from tuner.schedules import Case, Scheme
from tuner.schedules.scheme import Floats, Integers
from tuner.stages import StageCosts

Across = Literal["sum", "max"]
"""How the pipes of one rank combine: alive together, or one after the other."""

_OPTIMIZER_STATES: dict[Optimizer, int] = {"sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}


@dataclass(frozen=True)
class ParameterBytes:
    """Bytes kept for each parameter."""

    weights: int
    gradients: int
    optimizer: int
    """float32 states, and float32 master weights under mixed precision."""

    @classmethod
    def of(cls, request: PlanRequest) -> "ParameterBytes":
        """Adam under bfloat16: 2 + 4 + 12 bytes; under float32: 4 + 4 + 8."""
        precision: Precision = request.precision or "bfloat16"
        weights = 4 if precision == "float32" else 2
        masters = 0 if precision == "float32" else 4
        gradients = 4 if request.gradient_precision == "float32" else weights
        return cls(weights, gradients, masters + 4 * _OPTIMIZER_STATES[request.optimizer])


@dataclass(frozen=True)
class MemoryParts:
    """Bytes of every rank at its fullest moment [b, w], whole numbers that sum to the total."""

    weights_bytes: Floats
    gradients_bytes: Floats
    optimizer_bytes: Floats
    activations_bytes: Floats
    recompute_bytes: Floats
    loss_bytes: Floats
    transient_bytes: Floats
    communication_bytes: Floats
    framework_bytes: Floats
    reserve_bytes: Floats

    def total(self) -> Floats:
        """All parts together [b, w]."""
        return np.asarray(sum(self.by_name().values()), dtype=np.float64)

    def by_name(self) -> dict[str, Floats]:
        """The parts in their order [b, w]."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def rounded_up(self) -> "MemoryParts":
        """The same in whole bytes."""
        return MemoryParts(*map(np.ceil, self.by_name().values()))

    def row(self, batch: int, rank: int) -> dict[str, int]:
        """The parts of one rank, with their sum."""
        parts = {name: int(values[batch, rank]) for name, values in self.by_name().items()}
        return {"rank": rank, **parts, "total_bytes": sum(parts.values())}


@dataclass(frozen=True)
class MemoryModel:
    """The memory of one device, and what is asked of it."""

    request: PlanRequest
    framework_bytes: int
    capacity_bytes: int

    def parts(
        self, scheme: Scheme, stages: StageCosts, case: Case, *, width: int, recompute: Recompute
    ) -> MemoryParts:
        """Memory of each rank at its fullest moment; the reserve is the only upward bias."""
        placement = scheme.placement(case.depth, case.pipe_pairs)
        live = scheme.live(case)
        each = ParameterBytes.of(self.request)
        parameters = rank_parameters(stages, placement)
        shards = len(placement) * width if self.request.optimizer_sharding == "replicas" else 1
        kept, working = _activations(stages, live, recompute)
        across: Across = "sum" if scheme.pipes_overlap else "max"
        recomputed, loss, transient = _fullest_moment(
            stages,
            live,
            to_ranks(working, placement, "max"),
            placement=placement,
            across=across,
            loss_recomputed=recompute == "stage",
        )
        one = np.ones_like(parameters)
        return MemoryParts(
            weights_bytes=_weights(scheme, stages, case, placement=placement) * each.weights,
            gradients_bytes=parameters * each.gradients,
            optimizer_bytes=parameters * each.optimizer / shards,
            activations_bytes=to_ranks(kept, placement, across),
            recompute_bytes=recomputed,
            loss_bytes=loss,
            transient_bytes=transient,
            communication_bytes=to_ranks(_buffers(stages)[:, None, :], placement, "sum"),
            framework_bytes=one * self.framework_bytes,
            reserve_bytes=one * self.request.margin * self.capacity_bytes,
        ).rounded_up()


def _fullest_moment(
    stages: StageCosts,
    live: Floats,
    working: Floats,
    *,
    placement: Integers,
    across: Across,
    loss_recomputed: bool,
) -> tuple[Floats, Floats, Floats]:
    """Recomputed activations, losses and transient bytes when they need most together [b, w].

    Either a loss is computed (its working set beside the losses that live micro-batches keep; where it is
    recomputed with its stage, beside the recomputed stage and no other loss), or a layer runs backwards
    (recomputed activations and transient bytes, beside the losses of the other live micro-batches).
    """
    losses = stages.loss_bytes[:, None, :]
    kept = np.ones_like(live) if loss_recomputed else live
    at_loss = to_ranks(kept * losses, placement, across)
    at_loss = at_loss + to_ranks(stages.loss_work_bytes[:, None, :], placement, "max")
    waiting = to_ranks(np.maximum(kept - 1, 0) * losses, placement, across)
    transient = to_ranks(stages.transient_bytes[:, None, :], placement, "max")
    beside_loss = working if loss_recomputed else np.zeros_like(working)
    loss_peaks = at_loss + beside_loss > waiting + working + transient
    return (
        np.where(loss_peaks, beside_loss, working),
        np.where(loss_peaks, at_loss, waiting),
        np.where(loss_peaks, 0.0, transient),
    )


def _weights(scheme: Scheme, stages: StageCosts, case: Case, *, placement: Integers) -> Floats:
    """Parameters of all weight versions that each rank keeps [b, w]."""
    versions = scheme.weight_versions(case.depth)
    if (versions == 1).all():
        return rank_parameters(stages, placement)
    return to_ranks((versions * stages.all_parameters)[:, None, :], placement, "sum")


def _activations(stages: StageCosts, live: Floats, recompute: Recompute) -> tuple[Floats, Floats]:
    """What is kept for all live micro-batches, and the working set of recomputing one [b, p, s].

    Under `stage` only stage inputs are kept and the whole stage is recomputed; under `layer` the inputs of
    the blocks are kept, and embedding and head are not recomputed.
    """
    none = np.zeros_like(live)
    if recompute == "none":
        return live * stages.activation_bytes[:, None, :], none
    if recompute == "stage":
        return live * stages.stage_input_bytes[:, None, :], none + stages.activation_bytes[:, None, :]
    outside = stages.activation_bytes - stages.block_activation_bytes
    kept = live * (stages.block_input_bytes + outside)[:, None, :]
    return kept, none + stages.largest_block_bytes[:, None, :]


def _buffers(stages: StageCosts) -> Floats:
    """Over each cut of a stage one message in flight each way, forwards and backwards [b, s]."""
    entering = np.concatenate([np.zeros((len(stages.cut_bytes), 1)), stages.cut_bytes[:, :-1]], axis=1)
    return 2 * (entering + stages.cut_bytes)


def to_ranks(values: Floats, placement: Integers, how: Literal["sum", "max", "min"]) -> Floats:
    """Combine [b, p, s] over the stages that each rank holds [b, w]."""
    if len(placement) == 1 and placement.shape[1] == placement.max() + 1:
        return np.broadcast_to(values[:, 0, :], (len(values), placement.shape[1]))
    return np.asarray(getattr(by_rank(values, placement), how)(axis=1), dtype=np.float64)


def by_rank(values: Floats, placement: Integers) -> Floats:
    """[b, p, s] as [b, h, w]: what rank w holds, its h stages one after the other."""
    pipes, stages = placement.shape
    values = np.broadcast_to(values, (len(values), pipes, stages))
    order, depth = _rank_order(placement.tobytes(), placement.shape)
    held = values[:, np.arange(pipes)[:, None], order].reshape(len(values), pipes, depth, stages // depth)
    return np.moveaxis(held, 3, 2).reshape(len(values), -1, depth)


@lru_cache(maxsize=1024)
def _rank_order(placement: bytes, shape: tuple[int, int]) -> tuple[Integers, int]:
    """The stages of each pipe in the order of their ranks, and how many ranks there are."""
    ranks = np.frombuffer(placement, dtype=np.int64).reshape(shape)
    return np.argsort(ranks, axis=1, kind="stable"), int(ranks.max()) + 1


def rank_parameters(stages: StageCosts, placement: Integers) -> Floats:
    """Parameters of each rank; members of a tied group on one rank are one copy [b, w]."""
    total = to_ranks(stages.parameters[:, None, :], placement, "sum")
    for size, member in stages.tied:
        total = total + size * to_ranks(member[:, None, :], placement, "max")
    return total
