"""What does a model cost, by arithmetic alone: from config.json to layers, and from layers to times?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from profiles.device import Accelerator
from profiles.document import Attention, Precision, describe_faults
from profiles.model import Layer, ModelDescription
from profiles.timings import LayerTimings, TimingPoint, TypeTimings
from tuner.errors import UnsupportedModelError
from tuner.families.assembly import ITEMSIZES, assemble
from tuner.families.reading import quote
from tuner.families.recognition import recognize

MOST_POSITIONS = 100_000_000

Seconds = NDArray[np.float64]


def describe(
    config: Mapping[str, Any],
    *,
    sequence_length: int,
    precision: Precision,
    attention: Attention,
    name: str = "model",
) -> ModelDescription:
    """Describe the model of a parsed Hugging Face config.json; raises UnsupportedModelError saying why it
    cannot.

    Number and width of the layers must be there; other keys that are missing have the defaults of
    `transformers`, and unknown ones are ignored.
    """
    architecture = recognize(config)
    _check_length(sequence_length, architecture.positions)
    try:
        return ModelDescription(
            name=name,
            family=architecture.family,
            sequence_length=sequence_length,
            precision=precision,
            attention=attention,
            dropout=architecture.dropout,
            hidden_size=architecture.hidden_size,
            vocabulary_size=architecture.vocabulary_size,
            layers=assemble(
                architecture, sequence_length=sequence_length, precision=precision, attention=attention
            ),
        )
    except ValidationError as error:
        raise UnsupportedModelError(
            "the configuration describes no model that can be planned: "
            f"{describe_faults(error, name, most=1)}"
        ) from None


@dataclass(frozen=True)
class LayerTimeParts:
    """Seconds of one layer's forward and backward by what they are spent on [2, b]."""

    launch_s: float
    products_s: Seconds
    traffic_s: Seconds


def layer_time_parts(  # noqa: PLR0917 - layer, device, precision, sizes: each is an axis of the result
    layer: Layer, accelerator: Accelerator, precision: Precision, micro_batch_sizes: NDArray[np.int64]
) -> LayerTimeParts:
    """The terms of the roofline of `layer_times`, which are summed there."""
    sizes = np.asarray(micro_batch_sizes, dtype=np.float64)
    efficiency = accelerator.efficiency
    peak = peak_flops_of(accelerator, precision) * efficiency.matmul_peak_share
    bandwidth = accelerator.memory_bandwidth_bytes_per_s * efficiency.bandwidth_share
    flops = np.stack([layer.forward_flops * sizes, layer.backward_flops * sizes])
    products: Seconds = np.where(flops > 0, (flops + efficiency.half_peak_flops) / peak, 0.0)
    return LayerTimeParts(
        efficiency.launch_s, products, np.stack(_traffic(layer, precision, sizes)) / bandwidth
    )


def layer_times(  # noqa: PLR0917 - layer, device, precision, sizes: each is an axis of the result
    layer: Layer, accelerator: Accelerator, precision: Precision, micro_batch_sizes: NDArray[np.int64]
) -> tuple[Seconds, Seconds]:
    """Seconds of one layer's forward and backward at each micro-batch size, by a roofline.

    `launch_s + (f + half_peak_flops) / (peak * matmul_peak_share) + b / (bandwidth * bandwidth_share)`,
    the second term only where there is a matrix product. f is the layer's FLOPs. The traffic b takes
    each kept tensor twice (forward: written, then read; backward: read, and its gradient written), the
    hidden states that leave the layer likewise, and the weights once in the forward, twice in the
    backward (read, gradient written). An embedding reads the rows it looks up but writes the gradient
    of its whole table; a loss moves its working set (kept and transient) once in the forward and twice
    in the backward.
    """
    parts = layer_time_parts(layer, accelerator, precision, micro_batch_sizes)
    forward, backward = parts.launch_s + parts.products_s + parts.traffic_s
    return forward, backward


def estimate_timings(
    description: ModelDescription, accelerator: Accelerator, *, micro_batch_sizes: Sequence[int]
) -> LayerTimings:
    """Estimate the times of every layer type of a model on an accelerator."""
    sizes = np.array(sorted(set(micro_batch_sizes)), dtype=np.int64)
    kinds = {layer.type: layer for layer in reversed(description.layers)}
    return LayerTimings(
        name=description.name,
        accelerator=accelerator.name,
        software="estimated",
        precision=description.precision,
        attention=description.attention,
        sequence_length=description.sequence_length,
        source=f"Roofline over the data sheet of {accelerator.name}: {accelerator.efficiency.source}"[:2_000],
        types=tuple(
            _type_timings(layer, accelerator, description.precision, sizes=sizes)
            for layer in reversed(kinds.values())
        ),
    )


def _type_timings(
    layer: Layer, accelerator: Accelerator, precision: Precision, *, sizes: NDArray[np.int64]
) -> TypeTimings:
    forward, backward = layer_times(layer, accelerator, precision, sizes)
    return TypeTimings(
        type=layer.type,
        shape=layer.shape,
        provenance="estimated",
        points=tuple(
            TimingPoint(micro_batch_size=int(size), forward_s=float(before), backward_s=float(after))
            for size, before, after in zip(sizes, forward, backward, strict=True)
        ),
    )


def _traffic(layer: Layer, precision: Precision, sizes: Seconds) -> tuple[Seconds, Seconds]:
    """Bytes moved by forward and backward."""
    kept = layer.activation_bytes.fixed + layer.activation_bytes.per_sample * sizes
    if layer.kind == "loss":
        working_set = kept + layer.transient_bytes.fixed + layer.transient_bytes.per_sample * sizes
        return working_set, 2 * working_set
    moved = 2 * (kept + layer.cut_bytes.fixed + layer.cut_bytes.per_sample * sizes)
    weights = layer.parameters * ITEMSIZES[precision]
    if layer.kind == "embedding":
        return moved, moved + weights
    return moved + weights, moved + 2 * weights


def peak_flops_of(accelerator: Accelerator, precision: Precision) -> float:
    """Peak FLOP/s at a precision; a device without one for it computes in float32."""
    return accelerator.peak_flops.get(precision, accelerator.peak_flops["float32"])


def _check_length(sequence_length: int, positions: int | None) -> None:
    if isinstance(sequence_length, bool) or not isinstance(sequence_length, int):
        raise UnsupportedModelError(
            f"the sequence length must be a whole number, got {quote(sequence_length)}"
        )
    if not 1 <= sequence_length <= MOST_POSITIONS:
        raise UnsupportedModelError(
            f"the sequence length must be from 1 to {MOST_POSITIONS:,}, got {quote(sequence_length)}"
        )
    if positions is not None and sequence_length > positions:
        raise UnsupportedModelError(
            f"the model has learned positions for {positions:,} tokens, fewer than the sequence length "
            f"{sequence_length:,}. Use a sequence length of at most {positions:,} or raise n_positions "
            "(max_position_embeddings)"
        )
