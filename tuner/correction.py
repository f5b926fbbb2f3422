"""How far off is the model here, by the trials so far, and how sure is that?

log(measured / predicted) is a sum of small effects of what configurations have in common (`tuner.effects`),
a misfit of each configuration by itself and the noise of its measurement. All are normal with the standard
deviations expected beforehand, times one scale that the trials tell: Bayesian linear regression with a
conjugate scale (Bishop, Pattern Recognition and Machine Learning, 2006, section 3.3 and exercise 3.12), so
predictions have Student's t distribution. Without trials the predictions are the model's own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.effects import Known, features
from tuner.schedules.scheme import Floats
from tuner.sparse_rows import Rows, inverse, product
from tuner.trials import Option, Trial, TrialStatus, measured

LEVEL = 0.9
"""Share of configurations whose time is to lie in its error bar."""

_MISFIT = 0.04
"""Of one configuration, beyond what it has in common with others."""
_LEAST_NOISE = 0.01
"""Relative; runs of one configuration differ by about so much."""
_DISTURBED = 0.05
"""The same of runs while something else used the machine."""
_MOST_NOISE = 0.1
"""Of the median of a run, however much its iterations spread."""
_TRUST = 8.0
"""So many trials weigh as much as what is expected beforehand, in the scale."""
_NORMAL = 1.6448536
"""Half of LEVEL on either side of a standard normal."""


@dataclass(frozen=True)
class Corrected:
    """Iteration times of the options as the trials leave them [option]."""

    expected_s: Floats
    low_s: Floats
    """The optimistic end of the error bar."""
    high_s: Floats
    deviation: Floats
    """Standard deviation of the logarithm of the time."""
    unseen_s: Floats
    """Of every trial of `measured(trials)` what the others say of it [trial]."""


Correct = Callable[[Sequence[Trial], Sequence[Option]], Corrected]
"""Anything that learns from trials what the options will take, and how sure that is."""


def correct(trials: Sequence[Trial], options: Sequence[Option]) -> Corrected:
    """The options' times under what the trials have in common with them."""
    seen = measured(trials)
    place = {option.configuration: position for position, option in enumerate(options)}
    strange = sorted({trial.configuration for trial in seen} - set(place))
    place |= {configuration: len(options) + position for position, configuration in enumerate(strange)}
    known = [Known(option.configuration, option.shares) for option in options]
    rows = features(known + [Known(configuration) for configuration in strange])
    places = np.array([place[trial.configuration] for trial in seen], dtype=np.int64)
    fitted = _Fit(rows.take(places), np.array([_error(trial) for trial in seen]), _variances(seen))
    mean, deviation = fitted.predict(rows)
    mean[places], deviation[places] = fitted.settled()  # of repeats the last counts
    mean, deviation = mean[: len(options)], deviation[: len(options)]
    predicted = np.array([option.predicted_s for option in options])
    reach = fitted.reach * deviation
    return Corrected(
        expected_s=predicted * np.exp(mean),
        low_s=predicted * np.exp(mean - reach),
        high_s=predicted * np.exp(mean + reach),
        deviation=deviation,
        unseen_s=np.array([trial.predicted_s for trial in seen]) * np.exp(fitted.unseen()),
    )


class _Fit:
    """Weights of features with prior variance 1, of rows whose own variance is known up to a scale."""

    def __init__(self, rows: Rows, errors: Floats, variances: Floats) -> None:
        self._rows, self._errors, self._variances = rows, errors, variances
        self.covariance = inverse(rows.gram(1 / variances) + np.eye(rows.columns))
        self.weights = product(self.covariance, rows.across(errors / variances))
        residual = errors - rows.times(self.weights)
        energy = float(errors @ (residual / variances))
        freedom = _TRUST + len(errors)
        self.scale = (_TRUST + energy) / freedom
        self.reach = _student(freedom)

    def predict(self, rows: Rows) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the logarithm of measured over predicted [row]."""
        spread = rows.quadratic(self.covariance)
        return rows.times(self.weights), np.sqrt(self.scale * (spread + _MISFIT**2 + _LEAST_NOISE**2))

    def settled(self) -> tuple[Floats, Floats]:
        """The same of the rows that were measured: their own misfits are known up to the noise [row]."""
        mean, kept = self._rows.times(self.weights), _MISFIT**2 / self._variances
        noise = self._variances - _MISFIT**2
        return mean + kept * (self._errors - mean), np.sqrt(self.scale * kept * noise)

    def unseen(self) -> Floats:
        """What the fit to all other rows says of each row."""
        share = self._rows.quadratic(self.covariance) / self._variances
        residual = self._errors - self._rows.times(self.weights)
        return np.asarray(self._errors - residual / np.maximum(1 - share, 1e-9))


def _error(trial: Trial) -> float:
    return float(np.log((trial.measured_s or trial.predicted_s) / trial.predicted_s))


def _variances(seen: Sequence[Trial]) -> Floats:
    """Misfit and noise of every measured row, relative and squared."""
    least = [_DISTURBED if trial.status is TrialStatus.NOISY else _LEAST_NOISE for trial in seen]
    spread = [trial.spread_s / (trial.measured_s or 1.0) for trial in seen]
    noise = np.maximum(least, np.minimum(spread, _MOST_NOISE))
    return _MISFIT**2 + np.square(noise)


def _student(freedom: float) -> float:
    """Student's t in place of _NORMAL: two terms of its expansion (Abramowitz and Stegun, 26.7.5)."""
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
