"""What does recomputation make of the costs of stages? Axes are b (row) and s (stage).

Rows that differ in nothing but their recomputation stand one block after the other, so that all of them are
evaluated at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tuner.configuration import Recompute
from tuner.schedules.scheme import Floats
from tuner.stage_costs import StageCosts


@dataclass(frozen=True)
class Recomputed:
    """What a backward computes again, and what it then needs and leaves."""

    forward_s: Floats
    """Added to every backward [b, s]."""
    kept_bytes: Floats
    """What a live micro-batch keeps of every stage [b, s]."""
    again_bytes: Floats
    """Activations that are made again, which wait with a weight gradient [b, s]."""
    working_bytes: Floats
    """Activations made again that are alive at once in a whole backward [b, s]."""
    added_bytes: Floats
    """Most that a whole backward adds, its transient bytes included [b, s]."""
    beside_loss_bytes: Floats
    """What is made again beside the loss [b, s]."""
    loss_again: NDArray[np.bool_]
    """Whether losses are made again with their stage, so that no more than one is kept [b, 1, 1]."""


def recomputed(stages: StageCosts, modes: Sequence[Recompute]) -> Recomputed:
    """Of `stages` under each of `modes`, the rows of one mode after those of the other."""
    each = [_under(stages, mode) for mode in modes]
    if len(each) == 1:
        return each[0]
    return Recomputed(
        *(np.concatenate([getattr(one, field.name) for one in each]) for field in fields(Recomputed))
    )


def kept_bytes(stages: StageCosts, recompute: Recompute) -> Floats:
    """What a live micro-batch keeps of every stage [b, s].

    Under `stage` only stage inputs are kept; under `layer` the inputs of the blocks are, and embedding
    and head are not recomputed.
    """
    if recompute == "none":
        return stages.activation_bytes
    if recompute == "stage":
        return stages.stage_input_bytes
    return stages.block_input_bytes + stages.activation_bytes - stages.block_activation_bytes


def _under(stages: StageCosts, mode: Recompute) -> Recomputed:
    kept, activations = kept_bytes(stages, mode), stages.activation_bytes
    nothing, with_stage = np.zeros_like(activations), mode == "stage"
    if mode == "none":
        working, added = nothing, stages.transient_bytes
    elif mode == "stage":
        working, added = activations, activations + stages.transient_bytes
    else:
        added = stages.layer_backward_bytes
        working = np.minimum(stages.largest_block_bytes, added)
    return Recomputed(
        forward_s=stages.recomputed_forward_s.get(mode, nothing),
        kept_bytes=kept,
        again_bytes=nothing if mode == "none" else np.maximum(0.0, activations - kept),
        working_bytes=working,
        added_bytes=added,
        beside_loss_bytes=np.where(stages.loss_bytes > 0, activations, 0.0) if with_stage else nothing,
        loss_again=np.full((len(activations), 1, 1), with_stage),
    )
