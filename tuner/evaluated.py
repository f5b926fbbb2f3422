"""What is known of a configuration once it was evaluated? Of all its micro-batch sizes at once."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuner.configuration import Configuration, Recompute, Scaling
from tuner.cost import IterationTimes
from tuner.memory import MemoryParts
from tuner.schedules import SCHEMES, Scheme
from tuner.schedules.scheme import Floats, Integers
from tuner.space import Layout
from tuner.stage_costs import StageCosts

Rank = tuple[float, float, int, int, str, int, int]
"""Seconds of an iteration and bytes of the fullest rank; then depth, schedule, scaling, pipes and B."""


@dataclass(frozen=True)
class Variant:
    """All of a configuration but the micro-batch size."""

    scheme: Scheme
    layout: Layout
    scaling: Scaling
    pipe_pairs: int
    recompute: Recompute


class Together:
    """What is computed at once: one variant under every recomputation asked, block of rows after block."""

    def __init__(
        self, memory: MemoryParts, capacity_bytes: int, compute_times: Callable[[], IterationTimes]
    ) -> None:
        self.memory = memory
        self.capacity_bytes = capacity_bytes
        self._compute_times = compute_times

    @cached_property
    def times(self) -> IterationTimes:
        """Time by part, computed when some row is a candidate [r]."""
        return self._compute_times()

    @cached_property
    def iteration_s(self) -> Floats:
        """Time of one iteration [r]."""
        return self.times.iteration_s

    @cached_property
    def total_bytes(self) -> Floats:
        """Memory of every rank [r, w]."""
        return self.memory.total()

    @cached_property
    def peak_bytes(self) -> Floats:
        """Memory of the fullest rank [r]."""
        return np.asarray(self.total_bytes.max(axis=1))

    @cached_property
    def fits(self) -> NDArray[np.bool_]:
        """Whether every rank has the memory [r]."""
        return np.asarray(self.peak_bytes <= self.capacity_bytes)


@dataclass(frozen=True)
class Evaluated:
    """A variant at several micro-batch sizes [b]."""

    variant: Variant
    micro_batch_sizes: Integers
    micro_batches: Integers
    stages: StageCosts
    together: Together
    rows: slice
    """Its rows of what was computed together."""

    @property
    def capacity_bytes(self) -> int:
        """Of the device."""
        return self.together.capacity_bytes

    @cached_property
    def memory(self) -> MemoryParts:
        """Memory of every rank by part [b, w]."""
        return self.together.memory.rows(self.rows)

    @cached_property
    def times(self) -> IterationTimes:
        """Time by part [b]."""
        return self.together.times.rows(self.rows)

    @cached_property
    def total_bytes(self) -> Floats:
        """Memory of every rank [b, w]."""
        return self.together.total_bytes[self.rows]

    @cached_property
    def peak_bytes(self) -> Floats:
        """Memory of the fullest rank [b]."""
        return self.together.peak_bytes[self.rows]

    @cached_property
    def fits(self) -> NDArray[np.bool_]:
        """Whether every rank has the memory [b]."""
        return self.together.fits[self.rows]

    @cached_property
    def iteration_s(self) -> Floats:
        """Time of one iteration [b]."""
        return self.together.iteration_s[self.rows]

    @cached_property
    def ranks(self) -> list[Rank]:
        """What sorts configurations [b]."""
        variant = self.variant
        simpler = variant.layout.depth, list(SCHEMES).index(variant.scheme.name)
        columns = (each.tolist() for each in (self.iteration_s, self.peak_bytes, self.micro_batch_sizes))
        return [
            (seconds, peak, *simpler, variant.scaling, variant.pipe_pairs, size)
            for seconds, peak, size in zip(*columns, strict=True)
        ]

    def first(self, count: int) -> "Evaluated":
        """The same at the first sizes alone."""
        return replace(
            self,
            micro_batch_sizes=self.micro_batch_sizes[:count],
            micro_batches=self.micro_batches[:count],
            rows=slice(self.rows.start, self.rows.start + count),
        )

    def configuration(self, index: int) -> Configuration:
        """The configuration at one micro-batch size."""
        variant = self.variant
        return Configuration(
            schedule=variant.scheme.name,
            width=variant.layout.width,
            depth=variant.layout.depth,
            micro_batch_size=int(self.micro_batch_sizes[index]),
            micro_batches=int(self.micro_batches[index]),
            recompute=variant.recompute,
            scaling=variant.scaling,
            pipe_pairs=variant.pipe_pairs,
            chunks=variant.scheme.chunks,
        )
