"""Is what a runtime adds to operations and iterations told apart?"""

import numpy as np
import pytest

from executor.measuring.runtime_overheads import overheads_of
from tuner.operation_costs import Floats

SLOPES = np.array([10.0, 66.0, 8.0, 18.0])
"""Operations on the critical path of four runs."""
PREDICTED_S = 2e-3 * SLOPES


def found(operation_s: float, iteration_s: float) -> Floats:
    """What a round says where both are as given [run, 3]."""
    beyond_s = SLOPES * operation_s + iteration_s
    return np.column_stack([beyond_s, SLOPES, PREDICTED_S + beyond_s])


def test_both_overheads_are_found_though_one_round_was_disturbed() -> None:
    """Medians over rounds: what one of them says alone does not count."""
    rounds = np.stack([found(4e-4, 2e-3)] * 4 + [found(9.0, 0.5)])
    told = overheads_of(rounds, 1.0)
    assert (told.operation_s, told.iteration_s) == pytest.approx((4e-4, 2e-3))
    assert (told.operation_spread_s, told.rounds) == (pytest.approx(0.0, abs=1e-12), 5)


def test_no_overhead_is_less_than_nothing() -> None:
    """Noise may make runs seem faster than their layers."""
    told = overheads_of(found(-1e-4, -1e-3)[None], 1.0)
    assert (told.operation_s, told.iteration_s) == (0.0, 0.0)
