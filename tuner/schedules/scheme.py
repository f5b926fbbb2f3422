"""What must a schedule tell the cost and memory models?"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tuner.configuration import Scaling

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One variant of a schedule at one depth, for several micro-batch sizes at once (axis b).

    `forward_s` and `backward_s` [b] are the times of a typical stage: closed forms branch on their ratio.
    """

    depth: int
    micro_batches: Integers
    scaling: Scaling
    pipe_pairs: int
    forward_s: Floats
    backward_s: Floats
    chunks: int = 1

    @property
    def stages(self) -> int:
        """Stages of each pipe."""
        return self.depth * self.chunks


@dataclass(frozen=True)
class CriticalPath:
    """Forwards C_f and backwards C_b on the critical path [b], in stage times (eq. 1 of the paper)."""

    forwards: Floats
    backwards: Floats


class Scheme(Hashable, Protocol):
    """A schedule as the model sees it; arrays have the axes b (micro-batch size), p (pipe), s (stage)."""

    name: str
    synchronous: bool
    """Whether an iteration gives the weights of one process on the whole mini-batch."""
    eager_opt: bool
    """Whether later stages start their collective before the rank has finished (paper, section 3.2)."""
    pipes_overlap: bool
    """Whether micro-batches of several pipes are alive on a rank at once, so that activations add up."""
    chunks: int
    """Stages of each rank and pipe."""
    splits_backward: bool
    """Whether weight gradients are operations of their own."""

    def variants(self, depth: int, *, exhaustive: bool) -> list[tuple[Scaling, int]]:
        """The (scaling, pipe_pairs) worth trying at `depth`."""

    def illegal_depth(self, depth: int) -> str | None:
        """Why the schedule cannot run at `depth`, or None."""

    def smallest_micro_batches(self, depth: int) -> int:
        """The fewest micro-batches that the greedy rule accepts."""

    def illegal(self, depth: int, micro_batches: int, *, scaling: Scaling, pipe_pairs: int) -> str | None:
        """Why this variant has no closed form for `micro_batches`, or None."""

    def placement(self, depth: int, pipe_pairs: int) -> Integers:
        """Rank of each stage [p, s]."""

    def shares(self, case: Case) -> Integers:
        """Micro-batches that each pipe takes per iteration [b, p]."""

    def critical_path(self, case: Case) -> CriticalPath:
        """C_f and C_b for equal stages."""

    def live(self, case: Case) -> Floats:
        """Micro-batches alive at each stage when most are alive on its rank [b, p, s]."""

    def moments(self, case: Case) -> Floats:
        """Micro-batches alive at each stage at the moments of which one is its rank's fullest [m, b, p, s].

        There are several where the stages of a rank differ in bytes and are not fullest together.
        """

    def pending(self, case: Case) -> Floats:
        """Micro-batches whose weight gradient waits or runs, at the moments with most [m, b, p, s]."""

    def weight_versions(self, depth: int) -> Integers:
        """Copies of its weights that each stage keeps [s]."""


def shared_between(most: Floats, *, at_most: Floats) -> Floats:
    """Up to `at_most` [b, 1, s] of a rank's over the two stages of its two pipes: the extremes [2, b, 2, s].

    `most` [b, 2, s] is what each stage may have; stage s of one pipe stands where D - 1 - s of the other is.
    """
    other = most[:, ::-1, ::-1]
    mine = np.minimum(most, at_most)
    left = np.minimum(most, np.maximum(0, at_most - np.minimum(other, at_most)))
    down_first = np.stack([mine[:, 0], left[:, 1]], axis=1)
    up_first = np.stack([left[:, 0], mine[:, 1]], axis=1)
    return np.stack([down_first, up_first])


def one_pipe(depth: int) -> Integers:
    """Placement of a single pipe: stage s on rank s [1, s]."""
    return np.arange(depth, dtype=np.int64)[None, :]


def two_way(depth: int) -> Integers:
    """Placement of a down and an up pipe: stage s on rank s, and on rank D-1-s [2, s]."""
    ranks = np.arange(depth, dtype=np.int64)
    return np.stack([ranks, ranks[::-1]])
