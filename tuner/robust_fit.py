"""Which coefficients make predictions come nearest to measurements, without outliers deciding?

The loss is the soft L1 of e = log(predicted / measured): Σ 2·(√(1 + (e/δ)²) − 1), quadratic for errors well
below δ and linear beyond. Gauss-Newton with non-negative least squares and damping after Levenberg and
Marquardt. Predictions are simulated again and again; in between, that of a synchronous schedule is taken as
the maximum over all lines known so far: its time is the maximum over chains linear in the coefficients.
"""

from collections.abc import Sequence

import numpy as np

from tuner.coefficients import NAMES
from tuner.nonnegative import nonnegative_least_squares
from tuner.observation import Line, Observation
from tuner.schedules.scheme import Floats

SOFTNESS = 0.05
"""δ: relative errors beyond it count in proportion, not in square."""

_MOST_SIMULATIONS = 12
_MOST_STEPS = 40
_MOST_HALVINGS = 5
_BLURS = (0.0, 1e-3, 1e-2, 0.0)
_SETTLED = 1e-5
"""Relative gain of the loss that is worth another round."""


class Lines:
    """What has been learnt of one prediction: lines that meet its graph."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation
        self._lines: list[Line] = []

    def simulate(self, coefficients: Floats) -> Line:
        """The line at these coefficients, which is kept."""
        for known in self._lines:
            if np.array_equal(known.at, coefficients):
                return known
        line = self.observation.predictor.line(coefficients)
        if not self.observation.predictor.synchronous:
            # The difference of two maxima: lines elsewhere bound nothing.
            self._lines.clear()
        self._lines.append(line)
        return line

    def highest_s(self, coefficients: Floats) -> float:
        """The highest line at these coefficients."""
        return float(max(line.extended_s(coefficients) for line in self._lines))

    def gradient(self, coefficients: Floats, blur: float) -> Floats:
        """That of the highest line, or the mean of those that come within about the share `blur` of it."""
        values = np.array([line.extended_s(coefficients) for line in self._lines])
        if not blur:
            return self._lines[int(values.argmax())].gradient
        highest = values.max()
        weights = np.exp(np.maximum(-50.0, (values - highest) / (blur * abs(highest) + 1e-300)))
        slopes = np.stack([line.gradient for line in self._lines])
        return np.asarray(weights @ slopes / weights.sum())


class RobustFit:
    """Fits some coefficients to observations and leaves the others where they are."""

    def __init__(self, rows: Sequence[Lines], free: Sequence[int]) -> None:
        self._rows, self._free = rows, list(free)
        self._logs = np.log([row.observation.measured_s for row in rows])
        self._damping = 1e-3

    def from_start(self, start: Floats) -> Floats:
        """The coefficients, in the order of NAMES, that are reached from `start`."""
        at, loss = start.copy(), self._simulated_loss(start)
        for _ in range(_MOST_SIMULATIONS):
            tried = self._descend(at)
            reached = self._simulated_loss(tried)
            for _ in range(_MOST_HALVINGS):
                if reached <= loss:
                    break
                tried = (at + tried) / 2
                reached = self._simulated_loss(tried)
            if reached > loss * (1 - _SETTLED):
                break
            at, loss = tried, reached
        self._simulated_loss(at)
        return at

    def _simulated_loss(self, coefficients: Floats) -> float:
        """The loss simulated at these coefficients, whose lines are known then."""
        for row in self._rows:
            row.simulate(coefficients)
        return self.loss(coefficients)

    def loss(self, coefficients: Floats) -> float:
        """The soft L1 loss by the lines known so far."""
        errors = self._errors(coefficients)
        return float((2 * (np.sqrt(1 + (errors / SOFTNESS) ** 2) - 1)).sum())

    def _descend(self, at: Floats) -> Floats:
        """The coefficients of least loss by the lines known so far.

        Where chains change places the loss has a crease, across which the steps of one chain do not lead
        down; those of the mean of the chains there do.
        """
        for blur in _BLURS:
            at = self._descend_with(at, blur)
        return at

    def _descend_with(self, at: Floats, blur: float) -> Floats:
        loss = self.loss(at)
        self._damping = min(self._damping, 1e-3)
        for _ in range(_MOST_STEPS):
            tried = self._step(at, blur)
            reached = self.loss(tried)
            if reached < loss * (1 - 1e-10):
                ended = loss - reached < 1e-7 * loss
                at, loss, self._damping = tried, reached, max(self._damping / 3, 1e-6)
                if ended:
                    break
            else:
                self._damping *= 4
                if self._damping > 1e6:
                    self._damping = 1e-2
                    break
        return at

    def _step(self, at: Floats, blur: float) -> Floats:
        errors, slopes = self._errors(at), self._slopes(at, blur)
        weights = soft_weights(errors)
        length = np.linalg.norm(slopes * weights[:, None], axis=0)
        length[length == 0] = 1.0
        matrix = slopes * weights[:, None] / length
        now = at[self._free] * length
        damping = np.sqrt(self._damping) * np.eye(len(now))
        target = matrix @ now - weights * errors
        moved = nonnegative_least_squares(
            np.vstack([matrix, damping]), np.concatenate([target, np.sqrt(self._damping) * now])
        )
        tried = at.copy()
        tried[self._free] = moved / length
        return tried

    def _errors(self, at: Floats) -> Floats:
        """Errors of the logarithm [row]."""
        return np.log(self._values(at)) - self._logs

    def _slopes(self, at: Floats, blur: float) -> Floats:
        """Derivatives of the logarithms by the free coefficients [row, free]."""
        gradients = np.stack([row.gradient(at, blur)[self._free] for row in self._rows])
        return np.asarray(gradients / self._values(at)[:, None])

    def _values(self, at: Floats) -> Floats:
        return np.maximum([row.highest_s(at) for row in self._rows], 1e-12)


def soft_weights(errors: Floats) -> Floats:
    """Square roots of the weights with which least squares has the slope of the soft L1 loss."""
    return np.asarray((1 + (errors / SOFTNESS) ** 2) ** -0.25)


def slopes_at(rows: Sequence[Lines], coefficients: Floats) -> tuple[Floats, Floats]:
    """Simulated log(predicted / measured) [row], and its derivatives [row, NAMES]."""
    lines = [row.simulate(coefficients) for row in rows]
    values = np.array([line.value_s for line in lines])
    measured = np.array([row.observation.measured_s for row in rows])
    slopes = np.array([line.gradient for line in lines]).reshape(len(rows), len(NAMES))
    return np.log(values / measured), slopes / values[:, None]
