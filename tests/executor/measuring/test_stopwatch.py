"""Are medians, spreads and disturbances told from laps as they should be?"""

import gc

import pytest

from executor.measuring.stopwatch import LEAST_REPEATS, WARM_UPS, Stopwatch, repeat, summarise

QUIET = 1.0
DISTURBED = 0.5


def test_the_median_and_the_spread_are_those_of_the_laps() -> None:
    """The spread is the interquartile range over the median."""
    timed = summarise([(seconds, QUIET) for seconds in (1.0, 2.0, 3.0, 4.0, 5.0)])
    assert (timed.median_s, timed.repeats, timed.quiet_share) == (3.0, 5, 1.0)
    assert timed.spread == pytest.approx(2 / 3)
    assert timed.error == pytest.approx(2 / 3 / 5**0.5)


def test_an_outlier_is_counted_and_does_not_move_the_median() -> None:
    """One repeat that took a hundred times as long."""
    timed = summarise([(1.0 + index / 1_000, QUIET) for index in range(9)] + [(100.0, QUIET)])
    assert timed.median_s == pytest.approx(1.0045)
    assert timed.outliers == 1


def test_disturbed_repeats_are_left_out_while_enough_are_quiet() -> None:
    """They are told by the share of the time that the thread ran."""
    timed = summarise([(1.0, QUIET)] * LEAST_REPEATS + [(3.0, DISTURBED)] * 20)
    assert (timed.median_s, timed.repeats, timed.outliers) == (1.0, LEAST_REPEATS, 20)
    assert timed.quiet_share == pytest.approx(0.2)


def test_on_a_loaded_machine_the_time_that_the_thread_ran_counts() -> None:
    """Waiting for a processor is not the layer's time; several threads do not tell theirs."""
    laps = [(2.0, DISTURBED)] * 10
    assert summarise(laps).median_s == 1.0
    assert summarise(laps).quiet_share == 0.0
    several = summarise(laps, single_thread=False)
    assert (several.median_s, several.quiet_share) == (2.0, 1.0)


def test_work_is_repeated_often_enough_whatever_the_budget() -> None:
    """Without garbage collection in between, which is on again afterwards."""
    ran: list[bool] = []

    def cycle(watch: Stopwatch) -> None:
        with watch("work"):
            ran.append(gc.isenabled())

    timed = repeat(cycle, Stopwatch(), budget_s=0.0)["work"]
    assert len(ran) == WARM_UPS + LEAST_REPEATS
    assert not any(ran)
    assert gc.isenabled()
    assert 0 < timed.repeats <= LEAST_REPEATS


def test_an_error_inside_the_work_leaves_nothing_switched_off() -> None:
    """Garbage is collected again."""

    def cycle(_: Stopwatch) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        repeat(cycle, Stopwatch(), budget_s=0.0)
    assert gc.isenabled()
