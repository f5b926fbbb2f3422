"""Is what a runtime adds to operations and iterations told apart?"""

import numpy as np
import pytest

from executor.measuring.runtime_overheads import DEPTH, MICRO_BATCHES, overheads_of


def beyond(operation_s: float, iteration_s: float) -> list[float]:
    """What iterations of each N take longer by then."""
    return [2 * (count + DEPTH - 1) * operation_s + iteration_s for count in MICRO_BATCHES]


def test_both_overheads_are_found_though_one_round_was_disturbed() -> None:
    """Medians over rounds: what one of them says alone does not count."""
    rounds = np.array([beyond(4e-4, 2e-3)] * 4 + [[0.5, 9.0]])
    found = overheads_of(rounds, 1.0)
    assert (found.operation_s, found.iteration_s) == pytest.approx((4e-4, 2e-3))
    assert (found.operation_spread_s, found.rounds) == (pytest.approx(0.0), 5)


def test_no_overhead_is_less_than_nothing() -> None:
    """Noise may make runs seem faster than their layers."""
    found = overheads_of(np.array([beyond(-1e-4, -1e-3)]), 1.0)
    assert (found.operation_s, found.iteration_s) == (0.0, 0.0)
