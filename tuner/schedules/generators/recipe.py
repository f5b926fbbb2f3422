"""What does a scheme say about itself, and what can be asked of it?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tuner.configuration import Scaling
from tuner.schedules.program import Integers, Step


@dataclass(frozen=True)
class StageTimes:
    """Positive times of every stage of a pipe, for schedules that place work by simulated times."""

    forward: Sequence[float]
    input_gradient: Sequence[float]
    weight_gradient: Sequence[float]
    hop: float = 0.0
    """From the end of a stage to the start of its neighbour on another rank."""


@dataclass(frozen=True)
class Variant:
    """One variant of a scheme: what `generate` was asked for."""

    depth: int
    micro_batches: int
    scaling: Scaling
    pipe_pairs: int
    chunks: int
    pending: int
    """Weight-gradient parts that may wait on a rank."""
    iterations: int
    times: StageTimes | None = None


Ranks = list[list[Step]]
"""The steps of every rank, in order."""


def one_version(depth: int) -> Integers:
    """The current weights alone [s]."""
    return np.ones(depth, dtype=np.int64)


@dataclass(frozen=True)
class Recipe:
    """A scheme: its loops and what others must know of it."""

    name: str
    placement: Callable[[Variant], Integers]
    """Rank of each stage [pipe, stage]."""
    steps: Callable[[Variant], Ranks]
    """One iteration of a synchronous scheme; all iterations of an asynchronous one, which do not flush."""
    illegal: Callable[[Variant], str | None] | None = None
    """Why a variant cannot be generated, or None; without it all can."""
    synchronous: bool = True
    """Whether an iteration gives the weights of one process on the whole mini-batch."""
    updates: Literal["iteration", "micro_batch"] = "iteration"
    replicas: int = 1
    """Copies of every stage's weights in a group of ranks, for each pair of pipes."""
    weight_versions: Callable[[int], Integers] = one_version
    """Versions of its weights that each stage keeps at a given depth [s]."""
    splits_backward: bool = False
    """Whether input and weight gradients are operations of their own."""
    chunks: int = 1
    """Stages per rank and pipe unless asked otherwise."""
    options: frozenset[str] = frozenset()
    """Which of `scaling`, `pipe_pairs`, `chunks`, `pending` and `times` it understands."""
