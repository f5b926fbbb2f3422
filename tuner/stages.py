"""Where are layers cut into stages, and what do these cost? Axes are b (micro-batch size) and s (stage)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from profiles.model import ModelDescription
from tuner.layers import LayerCosts
from tuner.partition import balanced_counts, even_counts
from tuner.schedules.scheme import Floats, Integers
from tuner.stage_costs import StageCosts, UpdateTimes


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

        `overhead_s` is added to every forward and backward of a stage, and to one that is run again.
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
        tied = description.tied_groups()
        self._tied = list(tied.values())
        self._members = [
            np.array([layer.tied_group == group for layer in layers], dtype=np.float64) for group in tied
        ]
        self._balanced: dict[tuple[int, float, float], tuple[int, ...]] = {}
        """Cuts of equal blocks by depth and what stands before and behind them, in blocks to two decimals."""
        self._first_block, self._last_block = description.blocks[0], description.blocks[-1]

    def stages(self, costs: LayerCosts, depth: int) -> StageCosts:
        """Costs of `depth` stages; the balanced partition is made anew for every micro-batch size."""
        counts = self._counts(costs.forward_s + costs.backward_s, depth)
        cuts = self._cuts(counts)
        kept = costs.activation_bytes
        block_kept = np.where(self._is_block, kept, 0.0)
        inputs = np.concatenate([np.zeros((len(kept), 1)), costs.cut_bytes[:, :-1]], axis=1)
        block_inputs = np.where(self._is_block, inputs, 0.0)
        layer_kept = np.where(self._is_block, inputs, kept)
        ends = np.take_along_axis(costs.cut_bytes, cuts[:, 1:] - 1, axis=1)
        ends[:, -1] = 0.0
        summed = kept, block_kept, block_inputs, costs.loss_bytes, costs.loss_work_bytes, costs.arriving_bytes
        activations, block_activations, block_input_bytes, losses, loss_work, arriving = _sums(summed, cuts)
        largest_block, largest_transient = _largest((block_kept, costs.transient_bytes), cuts)
        transient, layer_backward = _most_added(
            (costs.transient_bytes, costs.transient_bytes + block_kept), (kept, layer_kept), cuts
        )
        untied, *members = _sums([_repeat(of, len(cuts)) for of in (self._untied, *self._members)], cuts)
        return StageCosts(
            counts=tuple(counts),
            **self._times(costs, cuts),
            activation_bytes=activations,
            block_activation_bytes=block_activations,
            largest_block_bytes=largest_block,
            block_input_bytes=block_input_bytes,
            stage_input_bytes=np.take_along_axis(inputs, cuts[:, :-1], axis=1),
            cut_bytes=ends,
            loss_bytes=losses,
            loss_work_bytes=loss_work,
            transient_bytes=transient,
            largest_transient_bytes=largest_transient,
            arriving_bytes=arriving,
            layer_backward_bytes=layer_backward,
            parameters=untied,
            tied=tuple((size, np.minimum(1.0, of)) for size, of in zip(self._tied, members, strict=True)),
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
        of_blocks = np.where(self._is_block, costs.forward_s, 0.0)
        timed = costs.forward_s, costs.backward_s, costs.weight_backward_s, costs.split_s, of_blocks
        forward, backward, weight_backward, split, blocks = _sums(timed, cuts)
        again_s = self._overhead_s  # running a forward a second time takes a runtime what the first did
        recomputed = {"none": np.zeros_like(forward), "stage": forward + again_s, "layer": blocks + again_s}
        return {
            "forward_s": forward + self._overhead_s,
            "backward_s": backward + self._overhead_s,
            "weight_backward_s": weight_backward + self._overhead_s,
            "split_s": split + self._overhead_s,
            "recomputed_forward_s": recomputed,
        }

    def _updates(self, cuts: Integers) -> UpdateTimes | None:
        """Of each layer the share of its parameters; a tied group takes what its slowest member does."""
        if self._update_s is None:
            return None
        layers = self._description.layers
        all_parameters = np.array([max(1, layer.parameters) for layer in layers], dtype=np.float64)
        each_s = self._update_s / all_parameters
        tied = zip(self._tied, self._members, strict=True)
        tied_s = tuple(size * float((of * each_s).max()) for size, of in tied)
        (untied_s,) = _sums([_repeat(self._untied * each_s, len(cuts))], cuts)
        return UpdateTimes(untied_s, tied_s)

    def _counts(self, layer_s: Floats, depth: int) -> list[tuple[int, ...]]:
        """Blocks per stage by the times of the layers, for every micro-batch size [b, l]."""
        blocks = len(self._description.blocks)
        if self._partition == "even":
            return [even_counts(blocks, depth)] * len(layer_s)
        first, last = self._first_block, self._last_block
        times = layer_s[:, first : last + 1]
        outer = layer_s[:, :first].sum(axis=1), layer_s[:, last + 1 :].sum(axis=1)
        equal = (times == times[:, :1]).all(axis=1) & (times[:, 0] > 0)
        each = zip(times, equal.tolist(), outer[0].tolist(), outer[1].tolist(), strict=True)
        return [
            self._of_equal(depth, before_s / float(row[0]), after_s / float(row[0]))
            if alike
            else balanced_counts(row.tolist(), depth, first_s=before_s, last_s=after_s)
            for row, alike, before_s, after_s in each
        ]

    def _of_equal(self, depth: int, first: float, last: float) -> tuple[int, ...]:
        """The cut of equal blocks with what stands before and behind them, in blocks to two decimals."""
        key = depth, round(first, 2), round(last, 2)
        if key not in self._balanced:
            ones = [1.0] * len(self._description.blocks)
            self._balanced[key] = balanced_counts(ones, depth, first_s=key[1], last_s=key[2])
        return self._balanced[key]

    def _cuts(self, counts: list[tuple[int, ...]]) -> Integers:
        """First layer of each stage, and the end [b, s + 1]; what is not a block goes to the outer stages."""
        ends = np.cumsum(np.array(counts, dtype=np.int64), axis=1) + self._first_block
        ends[:, -1] = len(self._description.layers)
        return np.concatenate([np.zeros((len(counts), 1), dtype=np.int64), ends], axis=1)


def _sums(values: Sequence[Floats], cuts: Integers) -> list[Floats]:
    """Sums over the layers of each stage [b, s], of each of the values [b, l]."""
    running = np.zeros((len(values), len(cuts), values[0].shape[1] + 1))
    np.cumsum(values, axis=2, out=running[:, :, 1:])
    return list(np.diff(running[:, _rows(cuts), cuts], axis=2))


def _largest(values: Sequence[Floats], cuts: Integers) -> list[Floats]:
    """Largest value over the layers of each stage [b, s], of each of the values [b, l]."""
    stacked = np.stack(values)
    starts = (cuts[:, :-1] + stacked.shape[2] * _rows(cuts)).ravel()
    flat = stacked.reshape(len(values), -1)
    return list(np.maximum.reduceat(flat, starts, axis=1).reshape(len(values), len(cuts), -1))


def _most_added(needed: Sequence[Floats], kept: Sequence[Floats], cuts: Integers) -> list[Floats]:
    """Most of each stage [b, s], over its layers, that one needs beyond what those behind it have freed."""
    running = np.cumsum(kept, axis=2)
    most = _largest(list(running + np.stack(needed)), cuts)
    return [each - freed for each, freed in zip(most, running[:, _rows(cuts), cuts[:, 1:] - 1], strict=True)]


def _rows(cuts: Integers) -> Integers:
    return np.arange(len(cuts))[:, None]


def _repeat(values: Floats, rows: int) -> Floats:
    return np.broadcast_to(values, (rows, len(values)))
