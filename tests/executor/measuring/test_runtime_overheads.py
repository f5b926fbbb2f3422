"""Is what a runtime adds to layers, operations and iterations told apart?"""

import numpy as np
import pytest

from executor.measuring.runtime_overheads import overheads_of
from tuner.operation_costs import Floats

OPERATIONS = np.array([10.0, 66.0, 8.0, 18.0, 10.0])
"""On the critical path of five runs, the last of larger layers."""
LAYERS_S = np.array([0.02, 0.13, 0.017, 0.03, 0.13])
PREDICTED_S = LAYERS_S + 0.001


def found(factor: float, operation_s: float, iteration_s: float) -> Floats:
    """What a round says where all are as given [run, 4]."""
    measured_s = PREDICTED_S + (factor - 1) * LAYERS_S + operation_s * OPERATIONS + iteration_s
    return np.column_stack([measured_s, PREDICTED_S, LAYERS_S, OPERATIONS])


def test_all_are_found_though_one_round_was_disturbed() -> None:
    """Medians over rounds: what one of them says alone does not count."""
    rounds = np.stack([found(1.05, 4e-4, 2e-3)] * 4 + [found(3.0, 9.0, 0.5)])
    told = overheads_of(rounds, 1.0)
    assert (told.compute_factor, told.operation_s, told.iteration_s) == pytest.approx((1.05, 4e-4, 2e-3))
    assert (told.operation_spread_s, told.rounds) == (pytest.approx(0.0, abs=1e-12), 5)


def test_no_overhead_is_less_than_nothing() -> None:
    """Noise may make runs seem faster than their layers."""
    told = overheads_of(found(0.9, -1e-5, -1e-4)[None], 1.0)
    assert told.compute_factor > 0
    assert min(told.operation_s, told.iteration_s) == 0.0
