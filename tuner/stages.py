"""What does each stage cost? Layers cut by the partition, at every micro-batch size; axes b and s (stage)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from profiles.model import ModelDescription
from tuner.configuration import Recompute
from tuner.layers import LayerCosts
from tuner.partition import balanced_counts, even_counts
from tuner.schedules.scheme import Floats, Integers


@dataclass(frozen=True)
class UpdateTimes:
    """Measured seconds of an optimizer step that is not sharded."""

    untied_s: Floats
    """Of the parameters of each stage that are not tied to others [b, s]."""
    tied_s: tuple[float, ...]
    """Of each tied group, in the order of `StageCosts.tied`."""


@dataclass(frozen=True)
class StageCosts:
    """Costs of every stage [b, s], parameters included: the cuts may move with the micro-batch size."""

    counts: tuple[tuple[int, ...], ...]
    """Blocks per stage, for each micro-batch size."""
    forward_s: Floats
    backward_s: Floats
    weight_backward_s: Floats
    """The part of the backward that a split one may defer."""
    split_s: Floats
    """What both parts of a split backward take beyond the whole one."""
    recomputed_forward_s: dict[Recompute, Floats]
    """What each recomputation adds to the backward."""
    activation_bytes: Floats
    block_activation_bytes: Floats
    largest_block_bytes: Floats
    """Activations of the largest block of the stage: the working set of recomputing one layer."""
    block_input_bytes: Floats
    """Inputs of the blocks, kept under recompute=layer."""
    stage_input_bytes: Floats
    cut_bytes: Floats
    """What leaves each stage forwards; 0 after the last."""
    loss_bytes: Floats
    loss_work_bytes: Floats
    transient_bytes: Floats
    """Most that a backward adds to what its stage keeps: it runs from the last layer to the first, and what
    the layers behind have kept is free by then."""
    largest_transient_bytes: Floats
    """Most that a layer adds while it runs, where nothing is freed before."""
    arriving_bytes: Floats
    """Gradients that wait for the weight gradient, where the backward is split."""
    layer_backward_bytes: Floats
    """As `transient_bytes` under recompute=layer, with the activations of the layer that is recomputed."""
    parameters: Floats
    """Parameters that are not tied to others."""
    tied: tuple[tuple[int, Floats], ...]
    """For each tied group its parameters, and 1 where a stage has a member [b, s]."""
    update: UpdateTimes | None = None
    """None where the optimizer step of some layer was not measured."""

    @property
    def all_parameters(self) -> Floats:
        """Parameters of each stage, a tied group counted once within it [b, s]."""
        return self.parameters + sum(size * member for size, member in self.tied)

    @property
    def all_update_s(self) -> Floats | None:
        """Measured optimizer step of each stage, a tied group counted once within it [b, s]."""
        if self.update is None:
            return None
        tied = zip(self.update.tied_s, self.tied, strict=True)
        return self.update.untied_s + sum(seconds * member for seconds, (_, member) in tied)


class StageModel:
    """Cuts one model into stages, remembering the cuts."""

    def __init__(
        self,
        description: ModelDescription,
        partition: str,
        *,
        update_s: Floats | None = None,
        overhead_s: float = 0.0,
    ) -> None:
        """`update_s` is what a step of each layer's parameters takes [l], where it is known of all.

        `overhead_s` is added to every forward and backward of a stage.
        """
        self._description = description
        self._overhead_s = overhead_s
        self._update_s = update_s
        self._partition = partition
        self._is_block = np.array([layer.kind == "block" for layer in description.layers])
        layers = description.layers
        self._untied = np.array(
            [layer.parameters - layer.tied_parameters for layer in layers], dtype=np.float64
        )
        self._tied = [
            (size, np.array([layer.tied_group == group for layer in layers], dtype=np.float64))
            for group, size in description.tied_groups().items()
        ]
        self._balanced: dict[tuple[int, float, float], tuple[int, ...]] = {}
        """Cuts of equal blocks by depth and what stands before and behind them, in blocks to two decimals."""
        self._first_block, self._last_block = description.blocks[0], description.blocks[-1]

    def stages(self, costs: LayerCosts, depth: int) -> StageCosts:
        """Costs of `depth` stages; the balanced partition is made anew for every micro-batch size."""
        total = costs.forward_s + costs.backward_s
        counts = [self._counts(row, depth) for row in total]
        cuts = self._cuts(counts)
        kept = costs.activation_bytes
        block_kept = np.where(self._is_block, kept, 0.0)
        inputs = np.concatenate([np.zeros((len(kept), 1)), costs.cut_bytes[:, :-1]], axis=1)
        ends = np.take_along_axis(costs.cut_bytes, cuts[:, 1:] - 1, axis=1)
        ends[:, -1] = 0.0
        block_inputs = np.where(self._is_block, inputs, 0.0)
        layer_kept = np.where(self._is_block, inputs, kept)
        return StageCosts(
            counts=tuple(counts),
            **self._times(costs, cuts),
            activation_bytes=_sums(kept, cuts),
            block_activation_bytes=_sums(block_kept, cuts),
            largest_block_bytes=_largest(block_kept, cuts),
            block_input_bytes=_sums(block_inputs, cuts),
            stage_input_bytes=np.take_along_axis(inputs, cuts[:, :-1], axis=1),
            cut_bytes=ends,
            loss_bytes=_sums(costs.loss_bytes, cuts),
            loss_work_bytes=_sums(costs.loss_work_bytes, cuts),
            transient_bytes=_most_added(costs.transient_bytes, kept, cuts),
            largest_transient_bytes=_largest(costs.transient_bytes, cuts),
            arriving_bytes=_sums(costs.arriving_bytes, cuts),
            layer_backward_bytes=_most_added(costs.transient_bytes + block_kept, layer_kept, cuts),
            parameters=_sums(_repeat(self._untied, len(cuts)), cuts),
            tied=tuple(
                (size, np.minimum(1.0, _sums(_repeat(of, len(cuts)), cuts))) for size, of in self._tied
            ),
            update=self._updates(cuts),
        )

    def retimed(self, stages: StageCosts, costs: LayerCosts) -> StageCosts:
        """`stages`, cut where they are, with the times that `costs` gives."""
        cuts = self._cuts(list(stages.counts))
        return replace(stages, **self._times(costs, cuts), update=self._updates(cuts))

    def halved(self, stages: StageCosts, half: LayerCosts) -> StageCosts:
        """`stages` with every forward and backward run as two of half the size, whose costs are `half`."""
        times = self._times(half, self._cuts(list(stages.counts)))
        doubled = {
            name: 2 * times[name] for name in ("forward_s", "backward_s", "weight_backward_s", "split_s")
        }
        recomputed = {mode: 2 * values for mode, values in times["recomputed_forward_s"].items()}
        return replace(stages, **doubled, recomputed_forward_s=recomputed)

    def _times(self, costs: LayerCosts, cuts: Integers) -> dict[str, Any]:
        forward = _sums(costs.forward_s, cuts)
        blocks = _sums(np.where(self._is_block, costs.forward_s, 0.0), cuts)
        recomputed = {"none": np.zeros_like(forward), "stage": forward, "layer": blocks}
        return {
            "forward_s": forward + self._overhead_s,
            "backward_s": _sums(costs.backward_s, cuts) + self._overhead_s,
            "weight_backward_s": _sums(costs.weight_backward_s, cuts) + self._overhead_s,
            "split_s": _sums(costs.split_s, cuts) + self._overhead_s,
            "recomputed_forward_s": recomputed,
        }

    def _updates(self, cuts: Integers) -> UpdateTimes | None:
        """Of each layer the share of its parameters; a tied group takes what its slowest member does."""
        if self._update_s is None:
            return None
        layers = self._description.layers
        all_parameters = np.array([max(1, layer.parameters) for layer in layers], dtype=np.float64)
        each_s = self._update_s / all_parameters
        tied = tuple(size * float((of * each_s).max()) for size, of in self._tied)
        return UpdateTimes(_sums(_repeat(self._untied * each_s, len(cuts)), cuts), tied)

    def _counts(self, layer_s: Floats, depth: int) -> tuple[int, ...]:
        blocks = len(self._description.blocks)
        if self._partition == "even":
            return even_counts(blocks, depth)
        first, last = self._first_block, self._last_block
        times = layer_s[first : last + 1].tolist()
        outer = float(layer_s[:first].sum()), float(layer_s[last + 1 :].sum())
        if min(times) < max(times) or not times[0]:
            return balanced_counts(times, depth, first_s=outer[0], last_s=outer[1])
        first_s, last_s = (round(each / times[0], 2) for each in outer)
        if (key := (depth, first_s, last_s)) not in self._balanced:
            self._balanced[key] = balanced_counts([1.0] * blocks, depth, first_s=first_s, last_s=last_s)
        return self._balanced[key]

    def _cuts(self, counts: list[tuple[int, ...]]) -> Integers:
        """First layer of each stage, and the end [b, s + 1]; what is not a block goes to the outer stages."""
        ends = np.cumsum(np.array(counts, dtype=np.int64), axis=1) + self._first_block
        ends[:, -1] = len(self._description.layers)
        return np.concatenate([np.zeros((len(counts), 1), dtype=np.int64), ends], axis=1)


def _sums(values: Floats, cuts: Integers) -> Floats:
    """Sums over the layers of each stage [b, s] of values [b, l]."""
    running = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
    at_cuts = np.take_along_axis(running, cuts, axis=1)
    return np.diff(at_cuts, axis=1)


def _largest(values: Floats, cuts: Integers) -> Floats:
    """Largest value over the layers of each stage [b, s]."""
    return np.stack([np.maximum.reduceat(row, cut[:-1]) for row, cut in zip(values, cuts, strict=True)])


def _most_added(needed: Floats, kept: Floats, cuts: Integers) -> Floats:
    """Most of each stage [b, s], over its layers, that one needs beyond what those behind it have freed."""
    running = np.cumsum(kept, axis=1)
    return _largest(needed + running, cuts) - np.take_along_axis(running, cuts[:, 1:] - 1, axis=1)


def _repeat(values: Floats, rows: int) -> Floats:
    return np.broadcast_to(values, (rows, len(values)))
