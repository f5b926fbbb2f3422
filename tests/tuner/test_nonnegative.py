"""Does the non-negative least squares find the best x >= 0?"""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuner.nonnegative import nonnegative_least_squares
from tuner.schedules.scheme import Floats


def best_by_trying_all(matrix: Floats, target: Floats) -> float:
    """The least distance over every set of columns whose own least squares has no negative entry."""
    columns = matrix.shape[1]
    found = [float(np.linalg.norm(target))]
    for size in range(1, columns + 1):
        for chosen in combinations(range(columns), size):
            x = np.linalg.lstsq(matrix[:, chosen], target, rcond=None)[0]
            if (x >= 0).all():
                found.append(float(np.linalg.norm(matrix[:, chosen] @ x - target)))
    return min(found)


@given(rows=st.integers(1, 8), columns=st.integers(1, 5), seed=st.integers(0, 10_000))
def test_no_set_of_columns_comes_nearer(rows: int, columns: int, seed: int) -> None:
    """Against every active set by itself."""
    generator = np.random.default_rng(seed)
    matrix, target = generator.normal(size=(rows, columns)), generator.normal(size=rows)
    x = nonnegative_least_squares(matrix, target)
    assert (x >= 0).all()
    reached = float(np.linalg.norm(matrix @ x - target))
    assert reached <= best_by_trying_all(matrix, target) + 1e-9


def test_what_is_exactly_reached_is_found() -> None:
    """A mixture with positive shares comes back."""
    matrix = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    found = nonnegative_least_squares(matrix, matrix @ np.array([2.0, 3.0]))
    assert np.allclose(found, [2.0, 3.0])


def test_columns_that_only_harm_stay_at_zero() -> None:
    """A target that points away from every column."""
    assert nonnegative_least_squares(np.eye(3), -np.ones(3)).tolist() == [0.0, 0.0, 0.0]
