"""What does every configuration of one layout cost and need? Evaluated for all micro-batch sizes at once."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tuner.compression import one_compression
from tuner.configuration import Recompute
from tuner.cost import CostModel
from tuner.evaluated import Evaluated, Together, Variant
from tuner.inputs import PlanInputs
from tuner.layers import LayerModel
from tuner.memory import MemoryModel
from tuner.network import Network
from tuner.recomputed import Recomputed, recomputed
from tuner.schedules import Case
from tuner.schedules.scheme import Floats, Integers
from tuner.space import Layout
from tuner.stage_costs import StageCosts
from tuner.stages import StageModel
from tuner.synchronization import Synchronization

_LEAST_FACTOR = 1e-9
"""Instead of 0, by which nothing can be divided."""


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
        self._repeated: dict[tuple[int, bytes, bytes, bool, tuple[Recompute, ...]], _Cut] = {}

    def evaluate(self, variant: Variant, sizes: Integers) -> Evaluated | None:
        """Memory and time at `sizes` where the variant is legal; None where it is legal at none of them."""
        return next(iter(self.evaluate_each(variant, (variant.recompute,), sizes)), None)

    def evaluate_each(
        self, variant: Variant, recomputes: tuple[Recompute, ...], sizes: Integers
    ) -> list[Evaluated]:
        """The variant under each of `recomputes`, computed together; none where it is legal at no size."""
        legal = np.flatnonzero([self._is_legal(variant, size) for size in sizes.tolist()])
        if not len(legal):
            return []
        cut = self._cut(variant, recomputes, sizes=sizes, legal=legal)
        layout, scheme = variant.layout, variant.scheme
        micro_batches = self._share(layout) // sizes[legal]
        case = Case(
            depth=layout.depth,
            micro_batches=np.tile(micro_batches, len(recomputes)),
            scaling=variant.scaling,
            pipe_pairs=variant.pipe_pairs,
            chunks=scheme.chunks,
            forward_s=cut.forward_s,
            backward_s=cut.backward_s,
        )
        memory = self._memory.parts(scheme, cut.repeated, case, width=layout.width, recomputed=cut.recomputed)
        times = partial(
            self.costs.times,
            scheme,
            cut.repeated,
            case,
            network=self.network(layout),
            recomputed=cut.recomputed,
        )
        together = Together(memory, self.inputs.accelerator.memory_bytes, times)
        return [
            Evaluated(
                variant=replace(variant, recompute=recompute),
                micro_batch_sizes=sizes[legal],
                micro_batches=micro_batches,
                stages=cut.stages,
                together=together,
                rows=slice(number * len(legal), (number + 1) * len(legal)),
            )
            for number, recompute in enumerate(recomputes)
        ]

    def _is_legal(self, variant: Variant, size: int) -> bool:
        layout = variant.layout
        micro_batches = self._share(layout) // size
        if variant.scaling == "halving" and size % 2:
            return False
        refusal = variant.scheme.illegal(
            layout.depth, micro_batches, scaling=variant.scaling, pipe_pairs=variant.pipe_pairs
        )
        return refusal is None

    def _share(self, layout: Layout) -> int:
        """Samples of a mini-batch that one pipeline takes."""
        return self.inputs.request.mini_batch_size // layout.width

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

    def _cut(
        self, variant: Variant, recomputes: tuple[Recompute, ...], *, sizes: Integers, legal: Integers
    ) -> "_Cut":
        """The stages of a variant; halving runs every pass as two of half the size, cut as the whole is."""
        count, halving = variant.layout.depth * variant.scheme.chunks, variant.scaling == "halving"
        key = (count, sizes.tobytes(), legal.tobytes(), halving, recomputes)
        if key not in self._repeated:
            stages = self.stages(count, sizes).rows(legal)
            if halving:
                stages = self._stage_model.halved(stages, self.layers.costs(sizes[legal] // 2))
            self._repeated[key] = _Cut.of(stages, recomputes)
        return self._repeated[key]


@dataclass(frozen=True)
class _Cut:
    """The stages of a variant at its micro-batch sizes [b], and of all its rows [r]."""

    stages: StageCosts
    repeated: StageCosts
    """The stages once for each recomputation."""
    recomputed: Recomputed
    forward_s: Floats
    """Mean over the stages [r]."""
    backward_s: Floats
    """Mean over the stages, with what is recomputed [r]."""

    @classmethod
    def of(cls, stages: StageCosts, recomputes: tuple[Recompute, ...]) -> "_Cut":
        """The stages under each of `recomputes`."""
        repeated = stages.rows(np.tile(np.arange(len(stages.counts)), len(recomputes)))
        again = recomputed(stages, recomputes)
        return cls(
            stages=stages,
            repeated=repeated,
            recomputed=again,
            forward_s=repeated.forward_s.mean(axis=1),
            backward_s=(repeated.backward_s + again.forward_s).mean(axis=1),
        )
