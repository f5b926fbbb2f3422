"""What does every configuration of one layout cost and need? Evaluated for all micro-batch sizes at once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from tuner.compression import one_compression
from tuner.configuration import Configuration, Recompute, Scaling
from tuner.cost import CostModel, IterationTimes
from tuner.inputs import PlanInputs
from tuner.layers import LayerModel
from tuner.memory import MemoryModel, MemoryParts
from tuner.network import Network
from tuner.schedules import Case, Scheme
from tuner.schedules.scheme import Floats, Integers
from tuner.space import Layout
from tuner.stages import StageCosts, StageModel
from tuner.synchronization import Synchronization

_LEAST_FACTOR = 1e-9
"""Instead of 0, by which nothing can be divided."""


@dataclass(frozen=True)
class Variant:
    """All of a configuration but the micro-batch size."""

    scheme: Scheme
    layout: Layout
    scaling: Scaling
    pipe_pairs: int
    recompute: Recompute


@dataclass(frozen=True)
class Evaluated:
    """A variant at several micro-batch sizes [b]."""

    variant: Variant
    micro_batch_sizes: Integers
    micro_batches: Integers
    stages: StageCosts
    memory: MemoryParts
    capacity_bytes: int
    compute_times: Callable[[], IterationTimes]

    @cached_property
    def times(self) -> IterationTimes:
        """Time by part, computed when something of this variant is a candidate [b]."""
        return self.compute_times()

    @cached_property
    def total_bytes(self) -> Floats:
        """Memory of every rank [b, w]."""
        return self.memory.total()

    @cached_property
    def peak_bytes(self) -> Floats:
        """Memory of the fullest rank [b]."""
        return np.asarray(self.total_bytes.max(axis=1))

    @cached_property
    def fits(self) -> NDArray[np.bool_]:
        """Whether every rank has the memory [b]."""
        return np.asarray(self.peak_bytes <= self.capacity_bytes)

    @cached_property
    def iteration_s(self) -> Floats:
        """Time of one iteration [b]."""
        return self.times.iteration_s

    def configuration(self, index: int) -> Configuration:
        """The configuration at one micro-batch size."""
        variant = self.variant
        return Configuration(
            schedule=variant.scheme.name,
            width=variant.layout.width,
            depth=variant.layout.depth,
            micro_batch_size=int(self.micro_batch_sizes[index]),
            micro_batches=int(self.micro_batches[index]),
            recompute=variant.recompute,
            scaling=variant.scaling,
            pipe_pairs=variant.pipe_pairs,
            chunks=variant.scheme.chunks,
        )


class Evaluator:
    """The models of one request; stages are cut once for each (depth, sizes)."""

    def __init__(self, inputs: PlanInputs) -> None:
        self.inputs = inputs
        self.layers = LayerModel(inputs)
        request, software = inputs.request, inputs.cluster.software
        self._stage_model = StageModel(
            inputs.description,
            request.partition or "balanced",
            update_s=self.layers.update_s(),
            overhead_s=software.operation_overhead_s or 0.0,
        )
        self._memory = MemoryModel(request, software, inputs.accelerator.memory_bytes)
        bandwidth = (
            inputs.accelerator.memory_bandwidth_bytes_per_s * inputs.accelerator.efficiency.bandwidth_share
        )
        lanes = 2 if software.collectives == "side_by_side" else 1
        factor = software.compute_factor if software.traffic_factor is None else software.traffic_factor
        update_bytes_per_s = bandwidth / max(factor, _LEAST_FACTOR)
        compression = one_compression(request.compression)
        self.synchronization = Synchronization(request, lanes, compression, update_bytes_per_s)
        overhead_s = software.iteration_overhead_s or 0.0
        self.costs = CostModel(request, self.synchronization, update_bytes_per_s, overhead_s)
        self._cuts: dict[tuple[int, bytes], StageCosts] = {}

    def evaluate(self, variant: Variant, sizes: Integers) -> Evaluated | None:
        """Memory and time at `sizes` where the variant is legal; None where it is legal at none of them."""
        layout, scheme = variant.layout, variant.scheme
        share = self.inputs.request.mini_batch_size // layout.width
        legal = [
            size
            for size in sizes.tolist()
            if scheme.illegal(
                layout.depth, share // size, scaling=variant.scaling, pipe_pairs=variant.pipe_pairs
            )
            is None
            and (variant.scaling != "halving" or size % 2 == 0)
        ]
        if not legal:
            return None
        sizes = np.array(legal, dtype=np.int64)
        stages = self._timed_stages(variant, sizes)
        case = self._case(variant, stages, share // sizes)
        network = self.network(layout)
        return Evaluated(
            variant=variant,
            micro_batch_sizes=sizes,
            micro_batches=case.micro_batches,
            stages=stages,
            memory=self._memory.parts(scheme, stages, case, width=layout.width, recompute=variant.recompute),
            capacity_bytes=self.inputs.accelerator.memory_bytes,
            compute_times=partial(
                self.costs.times, scheme, stages, case, network=network, recompute=variant.recompute
            ),
        )

    def network(self, layout: Layout) -> Network:
        """The links as a layout's ranks see them."""
        return Network(self.inputs.cluster, layout.width, layout.depth, self.inputs.request.rank_order)

    def stages(self, count: int, sizes: Integers) -> StageCosts:
        """`count` stages at `sizes`."""
        key = (count, sizes.tobytes())
        if key not in self._cuts:
            self._cuts[key] = self._stage_model.stages(self.layers.costs(sizes), count)
        return self._cuts[key]

    def retimed(self, variant: Variant, stages: StageCosts, sizes: Integers) -> StageCosts:
        """Stages that another evaluator of the same model cut, with the times of this one's cluster."""
        if variant.scaling == "halving":
            return self._stage_model.halved(stages, self.layers.costs(sizes // 2))
        return self._stage_model.retimed(stages, self.layers.costs(sizes))

    def _timed_stages(self, variant: Variant, sizes: Integers) -> StageCosts:
        """Halving runs every forward and backward as two of half the size, cut as the whole is."""
        stages = self.stages(variant.layout.depth * variant.scheme.chunks, sizes)
        if variant.scaling != "halving":
            return stages
        return self._stage_model.halved(stages, self.layers.costs(sizes // 2))

    @staticmethod
    def _case(variant: Variant, stages: StageCosts, micro_batches: Integers) -> Case:
        return Case(
            depth=variant.layout.depth,
            micro_batches=micro_batches,
            scaling=variant.scaling,
            pipe_pairs=variant.pipe_pairs,
            chunks=variant.scheme.chunks,
            forward_s=stages.forward_s.mean(axis=1),
            backward_s=(stages.backward_s + stages.recomputed_forward_s[variant.recompute]).mean(axis=1),
        )
