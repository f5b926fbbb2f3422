"""What do measurements teach about the software of a cluster, and how sure is a prediction then?

Schedules with a flush and those without are calibrated apart. A model has coefficients of its own where it
has enough measurements and describes rows left out better with them than with those of all models together.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

import numpy as np

from profiles.calibration import Calibration, CalibrationSet
from profiles.cluster import ClusterProfile
from profiles.measurement import Measurements
from profiles.timings import Profile
from tuner.coefficients import NAMES, with_values
from tuner.errors import CalibrationError
from tuner.fitted_set import Fitted, coefficients_of, deviation, document_of, fit
from tuner.further_measurements import suggest
from tuner.inputs import Library
from tuner.observation import Line, Observation, observe
from tuner.plausibility import iteration_doubt
from tuner.robust_fit import Lines

LEVEL = 0.9
"""Share of measurements that error bars are to hold."""

_WIDEST = 50.0
"""Logarithm of the end of an error bar over the prediction, beyond which it says nothing."""
_OWN_GAIN = 1.0
"""A model's own coefficients are taken where their error is below this share of that of the common ones."""


@dataclass(frozen=True)
class Corrected:
    """A calibrated prediction, with the bar in which the measurement will lie."""

    iteration_s: float
    low_s: float
    high_s: float


def calibrate(
    documents: Sequence[Measurements],
    library: Library,
    *,
    level: float = LEVEL,
    profiles: Sequence[Profile] = (),
) -> Calibration:
    """Coefficients from every measurement with a time; raises CalibrationError where there is none."""
    measurements = [measurement for document in documents for measurement in document.measurements]
    seen, skipped = observe(measurements, library, profiles=profiles)
    observations, doubtful = _believable(seen)
    skipped += doubtful
    if not observations:
        told = f": {skipped[0]}" if skipped else ""
        raise CalibrationError(
            f"none of the {len(measurements)} measurements has a time that can be predicted{told}. Give at "
            "least one with iteration_s or throughput_samples_per_s"
        )
    sets: list[CalibrationSet] = []
    groups: dict[tuple[str, bool], list[Lines]] = defaultdict(list)
    for each in observations:
        groups[each.cluster, each.predictor.synchronous].append(Lines(each))
    for (cluster, synchronous), rows in sorted(groups.items()):
        for model, fitted in fit_by_model(rows, level):
            helped = suggest(fitted, library, profiles=profiles)
            sets.append(
                document_of(fitted, cluster=cluster, model=model, synchronous=synchronous, helped_by=helped)
            )
    return Calibration(
        fitted_on=tuple(document.fingerprint() for document in documents),
        level=level,
        sets=tuple(sets),
        skipped=tuple(skipped),
    )


def _believable(observations: Sequence[Observation]) -> tuple[list[Observation], list[str]]:
    """Those whose times may be in their unit, and what is said of others: coefficients would take it up."""
    told = [
        iteration_doubt(each.model, measured_s=each.measured_s, predicted_s=each.predictor.simulated_s)
        for each in observations
    ]
    kept = [each for each, doubt in zip(observations, told, strict=True) if doubt is None]
    return kept, [f"left out: {doubt}" for doubt in told if doubt]


def fit_by_model(rows: Sequence[Lines], level: float) -> list[tuple[str | None, Fitted]]:
    """The fit over all rows of one cluster, and that of each model that is better described by its own."""
    common = fit(rows, level)
    found: list[tuple[str | None, Fitted]] = [(None, common)]
    by_model: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        by_model[row.observation.model].append(number)
    enough = 2 * len(NAMES)
    if len(by_model) == 1:
        return found
    for model, numbers in sorted(by_model.items()):
        if len(numbers) < enough:
            continue
        own = fit([rows[number] for number in numbers], level)
        shared = float(np.abs(np.exp(-common.left_out[numbers]) - 1).mean())
        if own.mean_error < _OWN_GAIN * shared:
            found.append((model, own))
    return found


def correct(line: Line, chosen: CalibrationSet) -> Corrected:
    """The prediction of `line`, which was simulated at the coefficients of `chosen`, with its error bar."""
    half = min(_WIDEST, chosen.reach * deviation(chosen, line.gradient / line.value_s))
    return Corrected(line.value_s, line.value_s * exp(-half), line.value_s * exp(half))


def corrected(observation: Observation, calibration: Calibration) -> Corrected | None:
    """What a calibration makes of a measured configuration; None where it says nothing of it."""
    chosen = calibration.find(
        observation.cluster, observation.model, synchronous=observation.predictor.synchronous
    )
    if chosen is None:
        return None
    return correct(observation.predictor.line(coefficients_of(chosen)), chosen)


def calibrated(cluster: ClusterProfile, chosen: CalibrationSet) -> ClusterProfile:
    """The cluster with the coefficients of a set."""
    fitted = with_values(cluster, coefficients_of(chosen))
    return fitted.model_copy(update={"software": fitted.software.model_copy(update={"provenance": "fitted"})})
