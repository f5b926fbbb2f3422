"""How near do predictions come to a document of measurements, plain or calibrated on others?"""

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from profiles.calibration import Calibration
from profiles.document import canonical_json
from profiles.measurement import Measurements
from profiles.timings import Profile
from tuner.calibration import corrected
from tuner.display import score_html
from tuner.inputs import Library
from tuner.memory_score import ScoredMemory, score_memory_of
from tuner.observation import Observation, observe
from tuner.plausibility import iteration_doubt
from tuner.regret import Choice, choices, exact_best, mean_regret
from tuner.replay import model_name


class ScorePart(BaseModel):
    """A piece of a score."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class ScoredRow(ScorePart):
    """One measurement and its prediction, in the quantity that was measured."""

    model: str
    cluster: str
    devices: int
    configuration: dict[str, str | int]
    quantity: Literal["samples_per_s", "iteration_s"]
    predicted: float
    measured: float
    error: float
    """Predicted over measured, minus 1."""
    uncalibrated: float
    """What is predicted without a calibration."""
    low: float | None = None
    """The error bar, where there is a calibration."""
    high: float | None = None


class ErrorSummary(ScorePart):
    """Relative errors of some rows; None where there are no rows."""

    count: int
    mape: float | None
    """Mean absolute."""
    median: float | None
    """Of the absolute ones."""
    max: float | None
    """Largest absolute."""
    bias: float | None
    """Mean signed."""
    error_bar_coverage: float | None
    """Share of the rows that lie in their error bars."""


class Group(ErrorSummary):
    """The rows of one model under one schedule."""

    model: str
    schedule: str


class AsynchronousScore(ErrorSummary):
    """Schedules without a flush, apart: the model describes them less well."""

    rows: tuple[ScoredRow, ...]


class Score(ErrorSummary):
    """Every measurement of a document beside its prediction; the summary is of schedules with a flush."""

    schema_version: Literal[1] = 1
    measurements: str
    """SHA-256 of the document that is scored."""
    calibration: str | None
    """SHA-256 of the calibration."""
    in_sample: bool
    """Whether the calibration has seen this very document."""
    rows: tuple[ScoredRow, ...]
    uncalibrated: ErrorSummary
    """The same rows predicted without the calibration."""
    groups: tuple[Group, ...]
    asynchronous: AsynchronousScore
    memory_count: int
    memory_mape: float | None
    memory_bias: float | None
    memory_min_mape: float | None
    """As `memory_mape` for the minimum over the ranks, which decides nothing."""
    memory_min_bias: float | None
    memory_rows: tuple[ScoredMemory, ...]
    """Measurements whose memory was measured, that ran out of it, or of which that is wrongly predicted."""
    oom_count: int
    oom_agreement: float | None
    """Share of them of which it is rightly said whether they ran out of memory."""
    alternatives: tuple[Choice, ...]
    """Measured alternatives with a flush for one task, and the one that the predictions pick."""
    mean_regret: float | None
    exact_best: float | None
    """How often the pick is the best."""
    skipped: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What is doubtful in measurements and in given profiles, and what these estimated or extrapolated."""

    def to_json(self) -> str:
        """Canonical text."""
        return canonical_json(self.model_dump(mode="json"))

    def _repr_html_(self) -> str:
        return score_html(self)


def score(
    document: Measurements,
    library: Library,
    *,
    calibration: Calibration | None = None,
    schedules: Sequence[str] | None = None,
    profiles: Sequence[Profile] = (),
    capacity_bytes: float | None = None,
) -> Score:
    """Predict every measurement of `document`, of these `schedules` where they are named.

    Whether they fit is decided at `capacity_bytes`, or else at what their accelerators have.
    """
    measured = [
        row for row in document.measurements if not schedules or row.configuration.schedule in schedules
    ]
    observations, skipped = observe(measured, library, profiles=profiles)
    pairs = [(each, _row(each, calibration)) for each in observations]
    flushed = [row for each, row in pairs if _has_flush(each)]
    others = tuple(row for each, row in pairs if not _has_flush(each))
    plain = [row.model_copy(update=_plain(row)) for row in flushed]
    picked = choices(
        [(each.measurement, each.measured_s, _seconds(row)) for each, row in pairs if _has_flush(each)]
    )
    doubts = (
        iteration_doubt(row.model, measured_s=each.measured_s, predicted_s=each.predictor.simulated_s)
        for each, row in pairs  # beside what no calibration has adapted to them
    )
    memory = score_memory_of(measured, library, capacity_bytes=capacity_bytes, profiles=profiles)
    return Score(
        **_summary(flushed).model_dump(),
        measurements=document.fingerprint(),
        calibration=calibration.fingerprint() if calibration else None,
        in_sample=calibration is not None and document.fingerprint() in calibration.fitted_on,
        rows=tuple(flushed),
        uncalibrated=_summary(plain),
        groups=_groups(flushed),
        asynchronous=AsynchronousScore(**_summary(others).model_dump(), rows=others),
        memory_count=sum(row.max_error is not None for row in memory.rows),
        memory_mape=memory.memory_mape,
        memory_bias=memory.memory_bias,
        memory_min_mape=memory.min_mape,
        memory_min_bias=memory.min_bias,
        memory_rows=memory.told_rows(),
        oom_count=len(memory.rows),
        oom_agreement=memory.oom_agreement,
        alternatives=picked,
        mean_regret=mean_regret(picked),
        exact_best=exact_best(picked),
        skipped=tuple(skipped),
        notes=(*filter(None, doubts), *_notes(observations, {each.description.name for each in profiles})),
    )


def _notes(observations: Sequence[Observation], profiled: Collection[str]) -> tuple[str, ...]:
    """Each once, of the measurements whose model has a profile."""
    told = (note for each in observations if each.model in profiled for note in each.predictor.notes)
    return tuple(dict.fromkeys(told))


def _has_flush(observation: Observation) -> bool:
    return observation.predictor.synchronous


def _row(observation: Observation, calibration: Calibration | None) -> ScoredRow:
    measurement, plain_s = observation.measurement, observation.predictor.simulated_s
    bar = corrected(observation, calibration) if calibration else None
    predicted_s = bar.iteration_s if bar else plain_s
    samples = measurement.configuration.mini_batch_size
    as_rate = measurement.iteration_s is None

    def shown(seconds: float) -> float:
        return samples / seconds if as_rate else seconds

    ends = sorted((shown(bar.low_s), shown(bar.high_s))) if bar else None
    return ScoredRow(
        model=model_name(measurement),
        cluster=measurement.cluster,
        devices=measurement.devices,
        configuration=measurement.configuration.model_dump(mode="json"),
        quantity="samples_per_s" if as_rate else "iteration_s",
        predicted=shown(predicted_s),
        measured=shown(observation.measured_s),
        error=shown(predicted_s) / shown(observation.measured_s) - 1,
        uncalibrated=shown(plain_s),
        low=ends[0] if ends else None,
        high=ends[1] if ends else None,
    )


def _plain(row: ScoredRow) -> dict[str, float | None]:
    error = row.uncalibrated / row.measured - 1
    return {"predicted": row.uncalibrated, "error": error, "low": None, "high": None}


def _seconds(row: ScoredRow) -> float:
    """The predicted iteration."""
    samples = row.configuration["mini_batch_size"]
    return int(samples) / row.predicted if row.quantity == "samples_per_s" else row.predicted


def _summary(rows: Sequence[ScoredRow]) -> ErrorSummary:
    errors = np.array([row.error for row in rows])
    inside = [
        row.low <= row.measured <= row.high for row in rows if row.low is not None and row.high is not None
    ]
    if not len(errors):
        return ErrorSummary(count=0, mape=None, median=None, max=None, bias=None, error_bar_coverage=None)
    size = np.abs(errors)
    return ErrorSummary(
        count=len(errors),
        mape=float(size.mean()),
        median=float(np.median(size)),
        max=float(size.max()),
        bias=float(errors.mean()),
        error_bar_coverage=sum(inside) / len(inside) if inside else None,
    )


def _groups(rows: Sequence[ScoredRow]) -> tuple[Group, ...]:
    names = sorted({(row.model, str(row.configuration["schedule"])) for row in rows})
    return tuple(
        Group(
            model=model,
            schedule=schedule,
            **_summary(
                [row for row in rows if (row.model, row.configuration["schedule"]) == (model, schedule)]
            ).model_dump(),
        )
        for model, schedule in names
    )
