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

from tuner.ranks import by_rank, to_ranks
from tuner.recomputed import Recomputed
from tuner.schedules import Case, Scheme
from tuner.schedules.scheme import Floats, Integers
from tuner.stage_costs import StageCosts

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
    recomputed: Recomputed
    placement: Integers
    across: Across

    def together(self, values: Floats) -> Floats:
        """Over the stages of every rank what is alive [b, w]."""
        return to_ranks(values, self.placement, self.across)

    def largest(self, values: Floats) -> Floats:
        """Over the stages of every rank the largest of [b, s]; one runs at a time [b, w]."""
        return to_ranks(values[:, None, :], self.placement, "max")


def fullest_moment(
    scheme: Scheme, stages: StageCosts, case: Case, *, recomputed: Recomputed, placement: Integers
) -> Alive:
    """What is alive on every rank at its fullest moment."""
    held = _Held(stages, recomputed, placement, "sum" if scheme.pipes_overlap else "max")
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
    stages, recomputed = held.stages, held.recomputed
    working, transient = _backward(held)
    beside_loss = held.largest(recomputed.beside_loss_bytes)
    computing = held.largest(stages.loss_work_bytes)
    nothing = np.zeros_like(working)
    moments = []
    for live in scheme.moments(case):
        losses, waiting = _losses(held, np.where(recomputed.loss_again, 1.0, live))
        activations = held.together(live * recomputed.kept_bytes[:, None, :])
        moments.append(Alive(activations, working, waiting, transient))
        moments.append(Alive(activations, beside_loss, losses + computing, nothing))
    return moments


def _split(held: _Held, scheme: Scheme, case: Case) -> list[Alive]:
    """Moments of a schedule with split backwards: most micro-batches alive beside most that wait for W."""
    stages, recomputed = held.stages, held.recomputed
    computing = held.largest(stages.loss_work_bytes)
    transient = held.largest(stages.largest_transient_bytes)
    nothing = np.zeros_like(transient)
    pendings = [
        (
            pending,
            held.together(pending * stages.arriving_bytes[:, None, :]),
            held.together(pending * recomputed.again_bytes[:, None, :]),
        )
        for pending in scheme.pending(case)
    ]
    moments = []
    for live in scheme.moments(case):
        activations = held.together(live * recomputed.kept_bytes[:, None, :])
        for pending, arrived, again in pendings:
            losses, waiting = _losses(held, np.where(recomputed.loss_again, pending, live))
            moments.append(Alive(activations + arrived, again, waiting, transient))
            moments.append(Alive(activations + arrived, again, losses + computing, nothing))
    return moments


def _losses(held: _Held, kept: Floats) -> tuple[Floats, Floats]:
    """Losses that micro-batches keep, and those of all but the one that runs backwards [b, w]."""
    each = held.stages.loss_bytes[:, None, :]
    return held.together(kept * each), held.together(np.maximum(kept - 1, 0) * each)


def _backward(held: _Held) -> tuple[Floats, Floats]:
    """Recomputed activations and transient bytes of the stage whose backward adds most to its rank [b, w]."""
    recomputed = held.recomputed
    working, *others = by_rank(recomputed.working_bytes[:, None, :], held.placement)
    added, *others_added = by_rank(recomputed.added_bytes[:, None, :], held.placement)
    for other, other_added in zip(others, others_added, strict=True):
        more = other_added > added
        working, added = np.where(more, other, working), np.where(more, other_added, added)
    return working, added - working
