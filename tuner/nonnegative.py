"""Which x >= 0 comes nearest to A·x = b? The active-set method of Lawson and Hanson (1974), chapter 23."""

import numpy as np
from numpy.typing import NDArray

from tuner.schedules.scheme import Floats

_TOLERANCE = 1e-10
_MOST_ROUNDS = 10
"""Rounds for each column, far more than are ever needed: the method ends after finitely many."""


def nonnegative_least_squares(matrix: Floats, target: Floats) -> Floats:
    """The x >= 0 with the smallest |matrix·x − target|."""
    columns = matrix.shape[1]
    x = np.zeros(columns)
    free = np.zeros(columns, dtype=bool)
    slope = matrix.T @ target
    least = _TOLERANCE * float(np.abs(slope).max(initial=0.0))
    for _ in range(_MOST_ROUNDS * max(1, columns)):
        if free.all() or float(slope[~free].max()) <= least:
            break
        free[int(np.where(free, -np.inf, slope).argmax())] = True
        x = _largest_step(matrix, target, x, free=free)
        slope = matrix.T @ (target - matrix @ x)
    return x


def _largest_step(matrix: Floats, target: Floats, x: Floats, *, free: NDArray[np.bool_]) -> Floats:
    """From x towards the solution over the free columns; those that reach 0 on the way are bound there."""
    while True:
        wanted = np.zeros(len(x))
        if free.any():
            wanted[free] = np.linalg.lstsq(matrix[:, free], target, rcond=None)[0]
        leaving = free & (wanted <= 0)
        if not leaving.any():
            return wanted
        step = float((x[leaving] / np.maximum(x[leaving] - wanted[leaving], 1e-300)).min())
        x = x + step * (wanted - x)
        reached = leaving & (x <= 1e-14 * max(1.0, float(np.abs(x).max())))
        if not reached.any():
            reached = leaving & (x == x[leaving].min())
        free &= ~reached
        x = np.where(free, x, 0.0)
