"""What is alive on a rank, beside its parameters, when it needs most?

A rank is fullest when a loss is computed or a layer runs backwards, at one of the moments that its schedule
names. A backward goes from the last layer of its stage to the first, and what the layers behind have kept is
free by then. A split backward frees nothing before the weight gradient has run, and until then keeps the
gradients that arrived at the results of parameters too; what it recomputed for the input gradient waits as
well. Equal to the replay of the program (`tuner.memory_replay`) but for chimera_split, where it is a bound.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tuner.configuration import Recompute
from tuner.ranks import by_rank, to_ranks
from tuner.schedules import Case, Scheme
from tuner.schedules.scheme import Floats, Integers
from tuner.stages import StageCosts

Across = Literal["sum", "max"]
"""How the pipes of one rank combine: alive together, or one after the other."""


@dataclass(frozen=True)
class Alive:
    """Bytes of every rank at one moment [b, w]."""

    activations: Floats
    recomputed: Floats
    losses: Floats
    transient: Floats

    def total(self) -> Floats:
        """All of it together [b, w]."""
        return self.activations + self.recomputed + self.losses + self.transient

    def or_fuller(self, other: "Alive") -> "Alive":
        """Of every rank whichever moment needs more."""
        fuller = other.total() > self.total()
        return Alive(
            np.where(fuller, other.activations, self.activations),
            np.where(fuller, other.recomputed, self.recomputed),
            np.where(fuller, other.losses, self.losses),
            np.where(fuller, other.transient, self.transient),
        )


@dataclass(frozen=True)
class _Held:
    """The stages that the ranks hold, and how their pipes combine."""

    stages: StageCosts
    recompute: Recompute
    placement: Integers
    across: Across

    def together(self, values: Floats) -> Floats:
        """Over the stages of every rank what is alive [b, w]."""
        return to_ranks(values, self.placement, self.across)

    def largest(self, values: Floats) -> Floats:
        """Over the stages of every rank the largest of [b, s]; one runs at a time [b, w]."""
        return to_ranks(values[:, None, :], self.placement, "max")

    def kept(self) -> Floats:
        """What a live micro-batch keeps of every stage [b, s]."""
        return kept_bytes(self.stages, self.recompute)


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


def fullest_moment(
    scheme: Scheme, stages: StageCosts, case: Case, *, recompute: Recompute, placement: Integers
) -> Alive:
    """What is alive on every rank at its fullest moment."""
    held = _Held(stages, recompute, placement, "sum" if scheme.pipes_overlap else "max")
    alive_at = _split if scheme.splits_backward else _whole
    fullest, *others = alive_at(held, scheme, case)
    for other in others:
        fullest = fullest.or_fuller(other)
    return fullest


def _whole(held: _Held, scheme: Scheme, case: Case) -> list[Alive]:
    """Moments of a schedule whose backwards are one operation.

    Either a loss is computed (its working set beside the losses that live micro-batches keep; where it is
    recomputed with its stage, beside the recomputed stage and no other loss), or a layer runs backwards
    (recomputed activations and transient bytes, beside the losses of the other live micro-batches).
    """
    stages, with_stage = held.stages, held.recompute == "stage"
    working, transient = _backward(held)
    last = np.where(stages.loss_bytes > 0, stages.activation_bytes, 0.0) * with_stage
    beside_loss, computing = held.largest(last), held.largest(stages.loss_work_bytes)
    nothing = np.zeros_like(working)
    moments = []
    for live in scheme.moments(case):
        kept = np.ones_like(live) if with_stage else live
        losses, waiting = _losses(held, kept)
        activations = held.together(live * held.kept()[:, None, :])
        moments.append(Alive(activations, working, waiting, transient))
        moments.append(Alive(activations, beside_loss, losses + computing, nothing))
    return moments


def _split(held: _Held, scheme: Scheme, case: Case) -> list[Alive]:
    """Moments of a schedule with split backwards: most micro-batches alive beside most that wait for W."""
    stages, recomputes = held.stages, held.recompute != "none"
    again = np.maximum(0.0, stages.activation_bytes - held.kept()) * recomputes
    computing = held.largest(stages.loss_work_bytes)
    transient = held.largest(stages.largest_transient_bytes)
    moments = []
    for live in scheme.moments(case):
        activations = held.together(live * held.kept()[:, None, :])
        for pending in scheme.pending(case):
            losses, waiting = _losses(held, pending if held.recompute == "stage" else live)
            arrived = held.together(pending * stages.arriving_bytes[:, None, :])
            recomputed = held.together(pending * again[:, None, :])
            moments.append(Alive(activations + arrived, recomputed, waiting, transient))
            moments.append(Alive(activations + arrived, recomputed, losses + computing, 0 * transient))
    return moments


def _losses(held: _Held, kept: Floats) -> tuple[Floats, Floats]:
    """Losses that micro-batches keep, and those of all but the one that runs backwards [b, w]."""
    each = held.stages.loss_bytes[:, None, :]
    return held.together(kept * each), held.together(np.maximum(kept - 1, 0) * each)


def _backward(held: _Held) -> tuple[Floats, Floats]:
    """Recomputed activations and transient bytes of the stage whose backward adds most to its rank [b, w]."""
    stages = held.stages
    if held.recompute == "none":
        transient = held.largest(stages.transient_bytes)
        return np.zeros_like(transient), transient
    if held.recompute == "stage":
        working, added = stages.activation_bytes, stages.activation_bytes + stages.transient_bytes
    else:
        added = stages.layer_backward_bytes
        working = np.minimum(stages.largest_block_bytes, added)
    by_stage = [by_rank(values[:, None, :], held.placement) for values in (working, added)]
    fullest = by_stage[1].argmax(axis=1, keepdims=True)
    most = [np.take_along_axis(values, fullest, axis=1)[:, 0, :] for values in by_stage]
    return most[0], most[1] - most[0]
