"""What does picking by prediction cost?"""

import pytest

from profiles.measurement import Measurement
from tests.tuner.measured import make_measurement
from tuner.regret import choices, exact_best, mean_regret


def row(width: int, measured_s: float, predicted_s: float) -> tuple[Measurement, float, float]:
    """One alternative on 32 devices."""
    return make_measurement(width=width, depth=32 // width), measured_s, predicted_s


def test_the_regret_is_what_the_pick_takes_longer_than_the_best() -> None:
    """The prediction prefers the second, which was measured 10 % slower."""
    (choice,) = choices([row(4, 2.0, 3.0), row(8, 2.2, 2.5), row(2, 4.0, 5.0)])
    assert choice.alternatives == 3
    assert (choice.picked["width"], choice.best["width"]) == (8, 4)
    assert choice.regret == pytest.approx(0.1)
    assert mean_regret([choice]) == pytest.approx(0.1)
    assert exact_best([choice]) == 0.0


def test_the_right_pick_has_no_regret() -> None:
    """However far the predictions are off."""
    (choice,) = choices([row(4, 2.0, 20.0), row(8, 2.2, 30.0)])
    assert choice.regret == 0.0
    assert exact_best([choice]) == 1.0


def test_a_single_measurement_is_no_choice() -> None:
    """Nor are two with different mini-batches."""
    other = make_measurement(mini_batch_size=256), 1.0, 1.0
    assert choices([row(4, 2.0, 3.0), other]) == ()
    assert mean_regret([]) is None
    assert exact_best([]) is None
