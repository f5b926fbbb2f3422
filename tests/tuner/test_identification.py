"""Is it refused to tell coefficients from measurements that do not tell them?"""

import numpy as np

from tests.tuner.measured import lines_of, make_measurement, measured_as, truth, various
from tuner.coefficients import NAMES
from tuner.identification import identify, most_helpful, own_share
from tuner.robust_fit import slopes_at


def at(name: str) -> int:
    """The position of a coefficient."""
    return NAMES.index(name)


def test_various_measurements_tell_every_coefficient() -> None:
    """Four schedules, four layouts, five sizes."""
    slopes = slopes_at(lines_of(measured_as(various(), truth())), truth())[1]
    assert identify(slopes).told == tuple(range(len(NAMES)))
    assert not identify(slopes).reasons


def test_one_pipeline_tells_nothing_of_collectives() -> None:
    """With W = 1 under a schedule of one pipe there are none."""
    rows = [make_measurement(width=1, depth=depth, micro_batch_size=size, mini_batch_size=64)
            for depth in (2, 4, 8, 16) for size in (1, 2, 4, 8, 16, 32)]  # fmt: skip
    found = identify(slopes_at(lines_of(measured_as(rows, truth())), truth())[1])
    for name in ("collective_factor", "stopped_collective_factor"):
        assert found.reasons[at(name)] == "none of the measurements depends on it"


def test_coefficients_that_act_alike_are_not_told_apart() -> None:
    """One layout and size under gpipe, with more and more micro-batches: hops are part of a constant."""
    rows = [make_measurement(schedule="gpipe", micro_batch_size=8, mini_batch_size=32 * count)
            for count in range(1, 25)]  # fmt: skip
    slopes = slopes_at(lines_of(measured_as(rows, truth())), truth())[1]
    found = identify(slopes)
    assert {at("message_factor"), at("iteration_overhead_s")} <= set(found.reasons)
    assert at("stopped_collective_factor") in found.reasons
    assert "cannot be told from" in found.reasons[at("message_factor")]
    assert own_share(slopes[:, at("message_factor")], slopes[:, list(found.told)]) < 0.05


def test_few_measurements_tell_few_coefficients() -> None:
    """Three rows for each."""
    slopes = np.random.default_rng(3).uniform(0.1, 1, (7, len(NAMES)))
    found = identify(slopes)
    assert len(found.told) == 2
    assert "7 measurements are enough for 2 coefficients" in next(iter(found.reasons.values()))
    again = identify(np.repeat(slopes[:3], 4, axis=0), differing=3)
    assert "12 measurements of 3 that differ are enough for 1" in next(iter(again.reasons.values()))


def test_the_most_helpful_measurement_is_the_one_that_makes_a_coefficient_its_own() -> None:
    """Of three candidates only the last moves the second coefficient alone."""
    slopes = np.zeros((4, len(NAMES)))
    slopes[:, 0] = slopes[:, 1] = 1.0
    candidates = np.zeros((3, len(NAMES)))
    candidates[0, :2], candidates[1, 2], candidates[2, 1] = 1.0, 1.0, 1.0
    assert most_helpful(slopes, candidates, told=[0], position=1) == 2
    assert most_helpful(slopes, candidates[:1], told=[0], position=1) is None
