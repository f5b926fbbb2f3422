"""Which latency and bandwidth explain the times of messages of several sizes?

Times t of L bytes follow α + β·L. What counts is the relative error (t − α − β·L) / t, so that small messages
say α as clearly as large ones say β; outliers are weighted down with Tukey's biweight, starting from the line
of least absolute relative errors.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.errors import TunerError

Floats = NDArray[np.float64]

LEAST_SIZES = 2
LEAST_SPAN = 4.0
"""Largest size over the smallest one: with less, latency and bandwidth cannot be told apart."""

_TUKEY = 4.685
_NORMAL = 1.4826
"""A standard deviation over the median absolute deviation, for normal errors."""
_STEPS = 60
_TINY = 1e-9
_LEAST_SHARE = 1e-6
"""Of the longest time that the bytes of the largest message must take."""


class LinkFitError(TunerError):
    """No line of positive slope can be put through the times; the message says what is missing."""


@dataclass(frozen=True)
class FittedLine:
    """Seconds of L bytes: latency_s + L / bandwidth_bytes_per_s."""

    latency_s: float
    bandwidth_bytes_per_s: float
    residual: float
    """Median of the absolute relative errors."""
    largest_residual: float
    """Largest of them, outliers included."""
    latency_is_bound: bool
    """The line would start below zero: the latency is too small to be told, and given as 0."""


def fit_line(sizes_bytes: Sequence[float], seconds: Sequence[float]) -> FittedLine:
    """Fit α and β to one time for each size, or to several.

    Raises LinkFitError where the sizes are too few or too near to each other, or where larger messages take
    no longer.
    """
    sizes, times = np.array(sizes_bytes, dtype=np.float64), np.array(seconds, dtype=np.float64)
    check_sizes(sizes_bytes)
    if len(sizes) != len(times) or not np.all(np.isfinite(times)) or np.any(times <= 0):
        raise LinkFitError("every size needs a time above zero")
    latency, slope = _robust(np.stack([np.ones_like(sizes), sizes], axis=1), times)
    bound = latency < 0
    if bound:
        latency, slope = 0.0, float(_robust(sizes[:, None], times)[0])
    if slope * sizes.max() <= _LEAST_SHARE * times.max():
        raise LinkFitError(
            f"messages of {sizes.max():,.0f} bytes take no longer than small ones ({times.min():.3g} to "
            f"{times.max():.3g} s), so no bandwidth can be told: measure larger messages, on a quiet machine"
        )
    errors = np.abs(times - latency - slope * sizes) / times
    return FittedLine(
        float(latency), float(1 / slope), float(np.median(errors)), float(errors.max()), bool(bound)
    )


def check_sizes(sizes_bytes: Sequence[float]) -> None:
    """Raise LinkFitError for sizes that cannot tell a latency from a bandwidth."""
    distinct = sorted(set(sizes_bytes))
    if len(distinct) < LEAST_SIZES:
        raise LinkFitError(
            f"{len(distinct)} size of messages tells no latency from a bandwidth: measure at least "
            f"{LEAST_SIZES}, the largest {LEAST_SPAN:g} times the smallest"
        )
    if distinct[0] <= 0 or distinct[-1] < LEAST_SPAN * distinct[0]:
        raise LinkFitError(
            f"messages of {distinct[0]:,.0f} to {distinct[-1]:,.0f} bytes are too alike to tell latency from "
            f"bandwidth: the largest must have {LEAST_SPAN:g} times the bytes of the smallest, which has some"
        )


def _robust(columns: Floats, times: Floats) -> Floats:
    """Coefficients of `columns` [point, coefficient] that explain `times`, by relative error."""
    relative = columns / times[:, None]
    found = _solve(relative, np.ones(len(times)))
    for _ in range(_STEPS):  # least absolute errors
        found = _solve(relative, 1 / np.maximum(np.abs(1 - relative @ found), _TINY))
    for _ in range(_STEPS):
        errors = np.abs(1 - relative @ found)
        reach = _TUKEY * _NORMAL * float(np.median(errors))
        if reach <= _TINY:
            return found
        found = _solve(relative, np.maximum(0.0, 1 - (errors / reach) ** 2) ** 2)
    return found


def _solve(relative: Floats, weights: Floats) -> Floats:
    """Least squares of relative @ x = 1, each column scaled to length 1 for its numbers' sake."""
    root = np.sqrt(weights)
    matrix = relative * root[:, None]
    lengths = np.linalg.norm(matrix, axis=0)
    lengths[lengths == 0] = 1.0
    return np.asarray(np.linalg.lstsq(matrix / lengths, root, rcond=None)[0] / lengths)
