"""How near does the memory model come to what was measured, and would it have refused what ran out?

The decision is on the upper bound: the parts of the fullest rank without what a plan keeps free.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from profiles.cluster import ClusterProfile
from profiles.measurement import Measurement
from profiles.timings import Profile
from tuner.inputs import Library
from tuner.replay import UNPREDICTABLE, model_name, replay
from tuner.schedules.scheme import Floats

NEAR_CAPACITY = 0.06
"""What was measured within this share below the capacity may be refused: figures are read to about 1 %."""

Verdict = Literal["agrees", "refused_near_capacity", "refused_but_ran", "accepted_but_ran_out"]


@dataclass(frozen=True)
class PredictedMemory:
    """What the model says one measured configuration needs."""

    rank_bytes: tuple[int, ...]
    """Fullest moment of every rank, without what is kept free."""
    part_bytes: dict[str, tuple[int, ...]]
    """The same by named part, in the order of a plan; they sum to `rank_bytes`."""
    capacity_bytes: int
    """Of the accelerator, as its driver reports."""

    @property
    def fullest_rank(self) -> int:
        """The rank that needs most."""
        return self.rank_bytes.index(max(self.rank_bytes))

    @property
    def emptiest_rank(self) -> int:
        """The rank that needs least."""
        return self.rank_bytes.index(min(self.rank_bytes))


@dataclass(frozen=True)
class ComparedMemory:
    """One measurement beside its prediction."""

    measurement: Measurement
    predicted: PredictedMemory
    verdict: Verdict
    capacity_bytes: float
    """What it was decided at."""

    @property
    def max_error(self) -> float | None:
        """Predicted over measured maximum of the ranks, minus 1; None where it was not measured."""
        return _error(max(self.predicted.rank_bytes), measured_peak_bytes(self.measurement))

    @property
    def min_error(self) -> float | None:
        """Predicted over measured minimum of the ranks, minus 1; None where it was not measured."""
        return _error(min(self.predicted.rank_bytes), measured_least_bytes(self.measurement))


class ScoredMemory(BaseModel):
    """The memory of one measurement as a score tells it: of the fullest rank and of the emptiest."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    model: str
    cluster: str
    devices: int
    configuration: dict[str, str | int]
    status: Literal["ok", "out_of_memory"]
    predicted_max_bytes: int
    predicted_min_bytes: int
    measured_max_bytes: float | None
    measured_min_bytes: float | None
    max_error: float | None
    """Predicted over measured, minus 1."""
    min_error: float | None
    capacity_bytes: float
    """What `verdict` is decided at, with nothing kept free."""
    verdict: Verdict


@dataclass(frozen=True)
class MemoryScore:
    """Errors of the maximum over the ranks, and agreement on what fits; None over no rows."""

    rows: tuple[ComparedMemory, ...]
    memory_mape: float | None
    memory_bias: float | None
    """Mean signed error: positive where the model asks for more than was needed."""
    min_mape: float | None
    """As `memory_mape` for the minimum over the ranks."""
    min_bias: float | None
    oom_agreement: float | None
    """Share of the rows whose status is what the model decides, or that ran near the capacity."""

    def told_rows(self) -> tuple[ScoredMemory, ...]:
        """Rows of which there is more to tell than that they ran, as predicted."""
        return tuple(
            _told(row)
            for row in self.rows
            if row.max_error is not None or row.measurement.status != "ok" or row.verdict != "agrees"
        )


def predict_memory(
    measurement: Measurement,
    library: Library,
    *,
    cluster: ClusterProfile | None = None,
    profiles: Sequence[Profile] = (),
) -> PredictedMemory:
    """Bytes of every rank of a measured configuration; `cluster` and `profiles` as `replay` takes them.

    Raises RequestError where the configuration cannot be replayed.
    """
    evaluated = replay(measurement, library, cluster=cluster, profiles=profiles).evaluated
    parts = {name: _whole(values[0]) for name, values in evaluated.memory.by_name().items()}
    parts.pop("reserve_bytes")
    return PredictedMemory(
        rank_bytes=tuple(map(sum, zip(*parts.values(), strict=True))),
        part_bytes=parts,
        capacity_bytes=evaluated.capacity_bytes,
    )


def compare_memory(
    measurement: Measurement,
    library: Library,
    *,
    cluster: ClusterProfile | None = None,
    capacity_bytes: float | None = None,
    profiles: Sequence[Profile] = (),
) -> ComparedMemory:
    """A measurement beside its prediction, decided at `capacity_bytes` or else where its device runs out."""
    predicted = predict_memory(measurement, library, cluster=cluster, profiles=profiles)
    capacity = runs_out_at(predicted.capacity_bytes) if capacity_bytes is None else capacity_bytes
    verdict = judge(measurement, predicted, capacity_bytes=capacity)
    return ComparedMemory(measurement, predicted, verdict, capacity)


def runs_out_at(capacity_bytes: int) -> float:
    """Bytes at which a device runs out of memory: its whole GiB, each of them as 1e9 bytes.

    An allocator finds no piece that is large enough before the last byte is taken: what ran out on 17.07e9
    bytes (the rows of figures 9 to 11 of the Chimera paper) needed 16.0e9.
    """
    whole = round(capacity_bytes / 2**30)
    return whole * 1e9 if whole else float(capacity_bytes)


def judge(measurement: Measurement, predicted: PredictedMemory, *, capacity_bytes: float) -> Verdict:
    """Whether the decision on the upper bound is what happened."""
    fits = max(predicted.rank_bytes) <= capacity_bytes
    if fits == (measurement.status == "ok"):
        return "agrees"
    if fits:
        return "accepted_but_ran_out"
    measured = measured_peak_bytes(measurement)
    near = measured is not None and measured >= (1 - NEAR_CAPACITY) * capacity_bytes
    return "refused_near_capacity" if near else "refused_but_ran"


def score_memory_of(
    measurements: Iterable[Measurement],
    library: Library,
    *,
    capacity_bytes: float | None = None,
    profiles: Sequence[Profile] = (),
) -> MemoryScore:
    """The score of every measurement that can be replayed, decided as `compare_memory` decides."""
    compared = []
    for measurement in measurements:
        with suppress(*UNPREDICTABLE):
            row = compare_memory(measurement, library, capacity_bytes=capacity_bytes, profiles=profiles)
            compared.append(row)
    return score_memory(compared)


def score_memory(rows: Iterable[ComparedMemory]) -> MemoryScore:
    """Errors over the rows whose memory was measured, agreement over all."""
    rows = tuple(rows)
    errors = [row.max_error for row in rows if row.max_error is not None]
    least = [row.min_error for row in rows if row.min_error is not None]
    agreeing = [row.verdict in {"agrees", "refused_near_capacity"} for row in rows]
    return MemoryScore(
        rows=rows,
        memory_mape=_mean([abs(error) for error in errors]),
        memory_bias=_mean(errors),
        min_mape=_mean([abs(error) for error in least]),
        min_bias=_mean(least),
        oom_agreement=_mean(agreeing),
    )


def _told(row: ComparedMemory) -> ScoredMemory:
    """A compared row as a score has it."""
    measurement, predicted = row.measurement, row.predicted
    return ScoredMemory(
        model=model_name(measurement),
        cluster=measurement.cluster,
        devices=measurement.devices,
        configuration=measurement.configuration.model_dump(mode="json"),
        status=measurement.status,
        predicted_max_bytes=max(predicted.rank_bytes),
        predicted_min_bytes=min(predicted.rank_bytes),
        measured_max_bytes=measured_peak_bytes(measurement),
        measured_min_bytes=measured_least_bytes(measurement),
        max_error=row.max_error,
        min_error=row.min_error,
        capacity_bytes=row.capacity_bytes,
        verdict=row.verdict,
    )


def measured_peak_bytes(measurement: Measurement) -> float | None:
    """Measured maximum over the ranks, or None."""
    if measurement.peak_memory_bytes:
        return float(max(measurement.peak_memory_bytes))
    return measurement.peak_memory_gb.max * 1e9 if measurement.peak_memory_gb else None


def measured_least_bytes(measurement: Measurement) -> float | None:
    """Measured minimum over the ranks, or None."""
    if measurement.peak_memory_bytes:
        return float(min(measurement.peak_memory_bytes))
    peak = measurement.peak_memory_gb
    return peak.min * 1e9 if peak and peak.min is not None else None


def _error(predicted: float, measured: float | None) -> float | None:
    return None if measured is None else predicted / measured - 1


def _mean(values: list[float] | list[bool]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _whole(values: Floats) -> tuple[int, ...]:
    return tuple(int(value) for value in np.asarray(values))
