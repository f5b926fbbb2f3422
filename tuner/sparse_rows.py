"""How are many features kept of which a row has few? By column and value, which products go through alone.

Nothing here uses BLAS: its threads wait actively, for longer than these products take, and round differently
from one machine to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.schedules.scheme import Floats, Integers


@dataclass(frozen=True)
class Rows:
    """A matrix X whose rows have the same number of entries each, no two of a row in one column."""

    column: Integers
    """[row, entry]"""
    value: Floats
    """[row, entry]"""
    columns: int

    @classmethod
    def beside(cls, parts: "Sequence[Rows]") -> "Rows":
        """Matrices of the same rows, one beside the other."""
        starts = np.cumsum([0, *(part.columns for part in parts)])
        return cls(
            np.hstack([part.column + start for part, start in zip(parts, starts, strict=False)]),
            np.hstack([part.value for part in parts]),
            int(starts[-1]),
        )

    def __len__(self) -> int:
        return len(self.column)

    def take(self, rows: Integers | np.ndarray) -> "Rows":
        """Some of the rows, by number or by a mask."""
        return Rows(self.column[rows], self.value[rows], self.columns)

    def times(self, weights: Floats) -> Floats:
        """X·w [row]."""
        return np.asarray((self.value * weights[self.column]).sum(axis=1))

    def across(self, amounts: Floats) -> Floats:
        """Xᵀ·a [column]."""
        spread = (self.value * amounts[:, None]).ravel()
        return _sums(self.column.ravel(), spread, self.columns)

    def gram(self, amounts: Floats) -> Floats:
        """Xᵀ·diag(a)·X [column, column]."""
        cells = self.column[:, :, None] * self.columns + self.column[:, None, :]
        values = (self.value * amounts[:, None])[:, :, None] * self.value[:, None, :]
        return _sums(cells.ravel(), values.ravel(), self.columns**2).reshape(self.columns, self.columns)

    def quadratic(self, matrix: Floats) -> Floats:
        """x·M·xᵀ of every row x [row]."""
        inner = matrix[self.column[:, :, None], self.column[:, None, :]]
        return np.asarray(np.einsum("re,ref,rf->r", self.value, inner, self.value))


def _sums(cells: Integers, values: Floats, count: int) -> Floats:
    """Of the values in each cell [cell]."""
    return np.asarray(np.bincount(cells, values, minlength=count), dtype=np.float64)


def inverse(matrix: Floats) -> Floats:
    """Of a symmetric positive definite matrix, by Gauss-Jordan elimination in place, without pivoting."""
    swept = matrix.copy()
    for place in range(len(swept)):
        pivot, column = swept[place, place], swept[:, place].copy()
        column[place] = 0.0
        swept[:, place] = 0.0
        swept[place, place] = 1.0
        swept[place] /= pivot
        swept -= column[:, None] * swept[place]
    return swept


def product(matrix: Floats, vector: Floats) -> Floats:
    """M·v [row]."""
    return np.asarray((matrix * vector).sum(axis=1))
