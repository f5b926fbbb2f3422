"""Do products of rows with few entries equal those of the whole matrix?"""

import numpy as np
import pytest

from tuner.sparse_rows import Rows, inverse, product

RANDOM = np.random.default_rng(0)
ROWS = Rows.beside(
    [
        Rows(np.tile(np.arange(3), (20, 1)), RANDOM.normal(size=(20, 3)), 3),
        Rows(RANDOM.integers(0, 5, (20, 1)), RANDOM.normal(size=(20, 1)), 5),
    ]
)
WHOLE = np.zeros((20, 8))
np.put_along_axis(WHOLE, ROWS.column, ROWS.value, axis=1)
AMOUNTS, WEIGHTS = RANDOM.uniform(1, 2, 20), RANDOM.normal(size=8)
POSITIVE = WHOLE.T @ WHOLE + np.eye(8)


def test_products_are_those_of_the_whole_matrix() -> None:
    """Of all rows, and of some."""
    assert ROWS.times(WEIGHTS) == pytest.approx(WHOLE @ WEIGHTS)
    assert ROWS.across(AMOUNTS) == pytest.approx(WHOLE.T @ AMOUNTS)
    assert ROWS.gram(AMOUNTS) == pytest.approx(WHOLE.T @ np.diag(AMOUNTS) @ WHOLE)
    assert ROWS.quadratic(POSITIVE) == pytest.approx(np.diag(WHOLE @ POSITIVE @ WHOLE.T))
    some = np.array([7, 2, 7])
    assert ROWS.take(some).times(WEIGHTS) == pytest.approx(WHOLE[some] @ WEIGHTS)


def test_the_inverse_undoes_the_matrix() -> None:
    """Up to rounding."""
    assert inverse(POSITIVE) @ POSITIVE == pytest.approx(np.eye(8), abs=1e-12)
    assert product(POSITIVE, WEIGHTS) == pytest.approx(POSITIVE @ WEIGHTS)
