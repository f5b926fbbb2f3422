"""What does each layer cost at each micro-batch size? Axes are b (micro-batch size) and l (layer)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from profiles.document import Provenance, canonical_json
from profiles.model import Layer
from profiles.timings import LayerTimings, TypeTimings
from tuner.estimate import layer_time_parts, peak_flops_of
from tuner.inputs import PlanInputs
from tuner.interpolation import interpolate_bytes, interpolate_times
from tuner.plausibility import doubts
from tuner.schedules.scheme import Floats, Integers


@dataclass(frozen=True)
class LayerCosts:
    """Times in seconds and bytes of every layer [b, l], software factors applied."""

    micro_batch_sizes: Integers
    forward_s: Floats
    backward_s: Floats
    """Without recomputation."""
    activation_bytes: Floats
    """Kept for the backward; 0 for the loss, which is counted in `loss_bytes`."""
    loss_bytes: Floats
    """Kept by the loss for each live micro-batch."""
    loss_work_bytes: Floats
    """Further bytes while one loss is computed."""
    transient_bytes: Floats
    cut_bytes: Floats
    """What crosses a cut after the layer."""
    arriving_bytes: Floats
    """Gradients that wait with the layer for its weight gradient, where the backward is split."""
    weight_backward_s: Floats
    """The part of the backward that a split one may defer."""
    split_s: Floats
    """What both parts of a split backward take beyond the whole one."""


@dataclass(frozen=True)
class Sources:
    """Where the times come from."""

    provenance: Provenance
    text: str
    notes: tuple[str, ...]


class LayerModel:
    """Costs of the layers of one model on one device; layers of equal type are computed once."""

    def __init__(self, inputs: PlanInputs) -> None:
        self._inputs = inputs
        layers = inputs.description.layers
        self.distinct = list({layer.type: layer for layer in layers}.values())
        position = {layer.type: i for i, layer in enumerate(self.distinct)}
        self._index = np.array([position[layer.type] for layer in layers])
        self._timings = [find_timings(layer, inputs.timings) for layer in self.distinct]
        self._software = inputs.cluster.software
        self._kept = inputs.cluster.software.activation_factors.get(inputs.description.family, 1.0)
        self._known = np.zeros(0, dtype=np.int64)
        """Micro-batch sizes whose costs were computed [k], in rising order."""
        self._table: Floats = np.zeros((0, 0, 0))
        """Their costs, each of a `LayerCosts` after the other, of the distinct layers [., k, d]."""

    def costs(self, micro_batch_sizes: Integers) -> LayerCosts:
        """Costs at `micro_batch_sizes` [b]."""
        new = np.setdiff1d(micro_batch_sizes, self._known)
        if len(new):
            columns = np.stack([self._column(i, new) for i in range(len(self.distinct))], axis=-1)
            sizes = np.concatenate([self._known, new])
            table = np.concatenate([self._table, columns], axis=1) if len(self._known) else columns
            order = np.argsort(sizes)
            self._known, self._table = sizes[order], table[:, order]
        rows = np.searchsorted(self._known, micro_batch_sizes)
        return LayerCosts(micro_batch_sizes, *self._table[:, rows[:, None], self._index])

    def update_s(self) -> Floats | None:
        """Measured step of the request's optimizer for every layer [l]; None where one was not measured."""
        optimizer = self._inputs.request.optimizer
        seconds = [
            timings.update_s
            for timings in self._timings
            if timings is not None and timings.update_s is not None and self._steps(timings) == optimizer
        ]
        if len(seconds) < len(self.distinct):
            return None
        each = np.array(seconds, dtype=np.float64) * self._software.compute_factor
        return np.asarray(each[self._index])

    def _steps(self, timings: TypeTimings) -> str | None:
        """Whose steps `update_s` are."""
        return next((entry.optimizer for entry in self._inputs.timings if timings in entry.types), None)

    def _column(self, position: int, sizes: Integers) -> Floats:
        layer, timings = self.distinct[position], self._timings[position]
        forward, backward = self._times(layer, timings, sizes)
        kept = layer.activation_bytes.fixed + layer.activation_bytes.per_sample * sizes.astype(np.float64)
        transient = layer.transient_bytes.fixed + layer.transient_bytes.per_sample * sizes.astype(np.float64)
        if timings is not None:
            kept = interpolate_bytes(timings, "activation_bytes", sizes, fallback=kept)
            transient = interpolate_bytes(timings, "transient_bytes", sizes, fallback=transient)
        kept = kept * self._kept
        cut = layer.cut_bytes.fixed + layer.cut_bytes.per_sample * sizes.astype(np.float64)
        arriving = layer.arriving_bytes
        waiting = (
            kept if arriving is None else arriving.fixed + arriving.per_sample * sizes.astype(np.float64)
        )
        none = np.zeros(len(sizes))
        is_loss = layer.kind == "loss"
        weight, split = self._parts(timings, backward, sizes)
        return np.stack(
            [
                forward,
                backward,
                none if is_loss else kept,
                kept / self._kept if is_loss else none,
                transient if is_loss else none,
                none if is_loss else transient,
                cut,
                none if is_loss else waiting,
                weight,
                split,
            ]
        )

    def _parts(self, timings: TypeTimings | None, backward: Floats, sizes: Integers) -> tuple[Floats, Floats]:
        """The weight gradient, and what both parts take beyond `backward`; where not measured half, and 0."""
        if timings is None or any(
            point.input_backward_s is None or point.weight_backward_s is None for point in timings.points
        ):
            return backward / 2, np.zeros(len(sizes))
        inputs, weights = (
            np.maximum(0.0, interpolate_times(timings, field, sizes)) * self._software.compute_factor
            for field in ("input_backward_s", "weight_backward_s")
        )
        return weights, inputs + weights - backward

    def _times(self, layer: Layer, timings: TypeTimings | None, sizes: Integers) -> tuple[Floats, Floats]:
        """Forward and backward in a run: the software's factors, and for a block the time to launch it."""
        software = self._software
        if timings is not None:
            forward = interpolate_times(timings, "forward_s", sizes) * software.compute_factor
            backward = interpolate_times(timings, "backward_s", sizes) * software.compute_factor
        else:
            forward, backward = self._estimated(layer, sizes)
        if software.launch_floor_s is None or layer.kind != "block":
            return forward, backward
        floor_s = software.launch_floor_s
        return np.maximum(forward, floor_s / 2), np.maximum(backward, floor_s)

    def _estimated(self, layer: Layer, sizes: Integers) -> tuple[Floats, Floats]:
        """By the data sheet; outside blocks traffic has a factor of its own where the software says one.

        Within a block the data sheet gives the ratio of products and traffic: measurements of few widths
        hardly tell it, and over further widths the two grow differently.
        """
        inputs, software = self._inputs, self._software
        parts = layer_time_parts(layer, inputs.accelerator, inputs.description.precision, sizes)
        traffic_factor = software.compute_factor
        if layer.kind != "block" and software.traffic_factor is not None:
            traffic_factor = software.traffic_factor
        computing_s = parts.launch_s + parts.products_s
        forward, backward = computing_s * software.compute_factor + parts.traffic_s * traffic_factor
        return forward, backward

    def _doubts(self) -> list[str]:
        """What cannot be true of the timings, whatever their provenance says."""
        inputs = self._inputs
        peak = peak_flops_of(inputs.accelerator, inputs.description.precision)
        return [
            doubt
            for layer, timings in zip(self.distinct, self._timings, strict=True)
            if timings is not None
            for doubt in doubts(layer, timings, peak_flops=peak)
        ]

    def fingerprint(self) -> str:
        """SHA-256 of the timings used; of the data sheet's curve where there are none."""
        used = [timings.model_dump(mode="json") for timings in self._timings if timings is not None]
        curve = self._inputs.accelerator.efficiency.model_dump(mode="json")
        return hashlib.sha256(canonical_json({"timings": used, "curve": curve}).encode()).hexdigest()

    def sources(self, micro_batch_sizes: Sequence[int] = ()) -> Sources:
        """Provenance of the block times, and what was estimated or, at `micro_batch_sizes`, extrapolated."""
        estimated = [layer.type for layer, t in zip(self.distinct, self._timings, strict=True) if t is None]
        notes = []
        if estimated and len(estimated) < len(self.distinct):
            notes.append(f"times of {', '.join(estimated)} are estimated: the profile has none")
        blocks = [t for layer, t in zip(self.distinct, self._timings, strict=True) if layer.kind == "block"]
        measured = [t for t in blocks if t is not None]
        if len(measured) < len(blocks) or not measured:
            text = f"roofline over the data sheet of {self._inputs.accelerator.name}"
            return Sources("estimated", text, tuple(notes))
        notes += self._doubts()
        for timings in measured:
            low, high = timings.points[0].micro_batch_size, timings.points[-1].micro_batch_size
            known = {point.micro_batch_size for point in timings.points}
            between = [size for size in micro_batch_sizes if low < size < high and size not in known]
            if between:
                notes.append(
                    f"times of {timings.type} at B={', '.join(map(str, between))} are interpolated between "
                    f"those at B={', '.join(map(str, sorted(known)[:20]))}"
                )
            outside = [size for size in micro_batch_sizes if not low <= size <= high]
            if outside:
                notes.append(
                    f"times of {timings.type} at B={', '.join(map(str, outside))} are extrapolated "
                    f"from {low}..{high}"
                )
        sheet = next(entry for entry in self._inputs.timings if measured[0] in entry.types)
        return Sources(measured[0].provenance, sheet.name, tuple(notes))


def find_timings(layer: Layer, available: tuple[LayerTimings, ...]) -> TypeTimings | None:
    """The first timings of equal shape: by shape where both have one, else by type."""
    for entry in available:
        for timings in entry.types:
            if timings.shape and layer.shape:
                if timings.shape == layer.shape:
                    return timings
            elif timings.type == layer.type:
                return timings
    return None
