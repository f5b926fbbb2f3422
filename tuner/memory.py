"""How much memory does each rank need at its peak, part by part?"""

from dataclasses import dataclass, fields

import numpy as np

from profiles.cluster import Software
from profiles.document import Precision
from tuner.compression import one_compression
from tuner.fullest_moment import fullest_moment
from tuner.ranks import placement_of, rank_parameters, to_ranks
from tuner.recomputed import Recomputed
from tuner.request import Optimizer, PlanRequest
from tuner.schedules import Case, Scheme
from tuner.schedules.scheme import Floats, Integers
from tuner.stage_costs import StageCosts

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

    def rows(self, which: slice) -> "MemoryParts":
        """Of some of the rows."""
        return MemoryParts(*(values[which] for values in self.by_name().values()))

    def rounded_up(self) -> "MemoryParts":
        """The same in whole bytes."""
        return MemoryParts(*map(np.ceil, self.by_name().values()))

    def row(self, batch: int, rank: int) -> dict[str, int]:
        """The parts of one rank, with their sum."""
        parts = {name: int(values[batch, rank]) for name, values in self.by_name().items()}
        return {"rank": rank, **parts, "total_bytes": sum(parts.values())}


@dataclass(frozen=True)
class MemoryModel:
    """The memory of one device, what its software adds, and what is asked of it."""

    request: PlanRequest
    software: Software
    capacity_bytes: int

    def parts(
        self, scheme: Scheme, stages: StageCosts, case: Case, *, width: int, recomputed: Recomputed
    ) -> MemoryParts:
        """Memory of each rank at its fullest moment; the reserve is the only upward bias."""
        placement = placement_of(scheme, case.depth, case.pipe_pairs)
        each = ParameterBytes.of(self.request)
        parameters = rank_parameters(stages, placement)
        shards = len(placement) * width if self.request.optimizer_sharding == "replicas" else 1
        fullest = fullest_moment(scheme, stages, case, recomputed=recomputed, placement=placement)
        one = np.ones_like(parameters)
        copies = self._weight_copies(scheme, stages, case, placement=placement)
        copies = parameters if copies is None else copies
        return MemoryParts(
            weights_bytes=copies * each.weights,
            gradients_bytes=parameters * each.gradients,
            optimizer_bytes=parameters * each.optimizer / shards,
            activations_bytes=fullest.activations,
            recompute_bytes=fullest.recomputed,
            loss_bytes=fullest.losses,
            transient_bytes=fullest.transient,
            communication_bytes=to_ranks(
                (_buffers(stages) + self._compressed(stages, replicas=len(placement) * width))[:, None, :],
                placement,
                "sum",
            ),
            framework_bytes=one * self.software.framework_bytes,
            reserve_bytes=one * self.request.margin * self.capacity_bytes,
        ).rounded_up()

    def _compressed(self, stages: StageCosts, *, replicas: int) -> Floats:
        """Codes of the gradients, and what is kept of them for the next step [b, s]."""
        how = one_compression(self.request.compression)
        parameters = stages.all_parameters
        return how.kept_bytes(parameters, replicas=replicas) if replicas > 1 else np.zeros_like(parameters)

    def _weight_copies(
        self, scheme: Scheme, stages: StageCosts, case: Case, *, placement: Integers
    ) -> Floats | None:
        """Parameters of all versions that each rank keeps, and of what the software copies [b, w].

        None where a rank keeps one copy of its parameters.
        """
        versions = scheme.weight_versions(case.depth)
        more = 0.0 if scheme.synchronous else self.software.asynchronous_weight_copies or 0.0
        if (versions == 1).all() and not more:
            return None
        return to_ranks(((versions + more) * stages.all_parameters)[:, None, :], placement, "sum")


def _buffers(stages: StageCosts) -> Floats:
    """Over each cut of a stage one message in flight each way, forwards and backwards [b, s]."""
    entering = np.concatenate([np.zeros((len(stages.cut_bytes), 1)), stages.cut_bytes[:, :-1]], axis=1)
    return 2 * (entering + stages.cut_bytes)
