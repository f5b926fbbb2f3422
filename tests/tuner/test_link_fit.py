"""Are latency and bandwidth found again in the times that they give?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.link_fit import LinkFitError, fit_line

SIZES = [2.0**power for power in range(10, 25, 2)]


def times(latency_s: float, bandwidth: float) -> np.ndarray:
    return latency_s + np.array(SIZES) / bandwidth


@given(latency=st.floats(1e-6, 1e-2), bandwidth=st.floats(1e8, 1e12))
def test_exact_times_give_the_line_back(latency: float, bandwidth: float) -> None:
    """To rounding, over links from a slow network to one inside a machine."""
    line = fit_line(SIZES, times(latency, bandwidth).tolist())
    assert line.latency_s == pytest.approx(latency, rel=1e-6, abs=1e-13)
    assert line.bandwidth_bytes_per_s == pytest.approx(bandwidth, rel=1e-6)
    assert line.largest_residual < 1e-6
    assert not line.latency_is_bound


@pytest.mark.parametrize("seed", range(20))
def test_noise_and_outliers_move_it_little(seed: int) -> None:
    """Nine repeats with 5 % noise of which one in eight was interrupted: both within 8 %."""
    random = np.random.default_rng(seed)
    exact = np.repeat(times(2e-4, 2e9), 9)
    noisy = exact * (1 + 0.05 * random.standard_normal(len(exact)))
    noisy[random.random(len(exact)) < 1 / 8] *= 5
    line = fit_line(np.repeat(SIZES, 9).tolist(), noisy.tolist())
    assert line.latency_s == pytest.approx(2e-4, rel=0.08)
    assert line.bandwidth_bytes_per_s == pytest.approx(2e9, rel=0.08)
    assert 0.01 < line.residual < 0.08
    assert line.largest_residual > 0.5


def test_plain_least_squares_would_be_moved() -> None:
    """What the weights are for: one interrupted message doubles the latency of an ordinary line."""
    disturbed = times(1e-4, 1e9)
    disturbed[2] *= 10
    ordinary = np.polyfit(SIZES, disturbed, 1)[1]
    assert ordinary > 2e-4
    assert fit_line(SIZES, disturbed.tolist()).latency_s == pytest.approx(1e-4, rel=1e-3)


def test_a_line_from_below_zero_has_no_latency() -> None:
    """It is given as 0 and said to be a bound."""
    line = fit_line(SIZES, [size**1.2 * 1e-9 for size in SIZES])
    assert (line.latency_s, line.latency_is_bound) == (0.0, True)
    assert line.bandwidth_bytes_per_s > 0


@pytest.mark.parametrize(
    ("sizes", "seconds", "wanted"),
    [
        ([1e6, 1e6, 1e6], [1.0, 1.1, 0.9], "1 size"),
        ([1e6, 2e6], [1.0, 2.0], "too alike"),
        ([0.0, 1e6], [1.0, 2.0], "too alike"),
        ([1e3, 1e6], [2.0, 1.0], "no longer"),
        ([1e3, 1e6], [1.0, 1.0], "no longer"),
        ([1e3, 1e6], [0.0, 1.0], "above zero"),
        ([1e3, 1e6], [1.0, float("nan")], "above zero"),
    ],
)
def test_what_tells_no_bandwidth_is_refused(sizes: list[float], seconds: list[float], wanted: str) -> None:
    """With what to measure instead."""
    with pytest.raises(LinkFitError, match=wanted):
        fit_line(sizes, seconds)
