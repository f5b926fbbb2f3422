"""Is it told which iterations were disturbed, by the rule that was fixed?"""

import os

import pytest

from executor.trials.load import LoadMonitor, LoadSample, Quietness, judge_quietness, sample_load


def samples(*others_s: float, own_s: float = 0.0, reference: float = 1.0) -> list[LoadSample]:
    """One a second, on a machine where others have taken so many seconds by then."""
    return [
        LoadSample(at, others + own_s * at, 0.0, own_s * at, reference * 1e-3)
        for at, others in enumerate(others_s)
    ]


def kept(seen: list[LoadSample], *windows: tuple[float, float]) -> tuple[bool, ...]:
    """Which windows count on two cores."""
    return judge_quietness(seen, windows, cores=2).kept


def test_what_the_run_itself_takes_disturbs_nothing() -> None:
    """Both cores may be busy with it."""
    assert kept(samples(0, 0, 0, 0, own_s=2.0), (0.5, 1.5), (1.5, 2.5)) == (True, True)


def test_others_may_take_a_tenth() -> None:
    """0.2 s of the 2 s that two cores have in a second."""
    assert kept(samples(0, 0.19, 0.19, 0.4), (0.1, 0.9), (1.1, 1.9), (2.1, 2.9)) == (True, True, False)


def test_steal_counts_as_others() -> None:
    """A hypervisor that takes the cores away is no better."""
    seen = [LoadSample(0, 0, 0, 0, 1e-3), LoadSample(1, 0, 0.5, 0, 1e-3)]
    assert kept(seen, (0.2, 0.8)) == (False,)


def test_a_slow_reference_loop_tells_of_a_slow_machine() -> None:
    """Heat and frequency show in no count of busy time."""
    seen = [*samples(0, 0), LoadSample(2, 0, 0, 0, 2e-3), LoadSample(3, 0, 0, 0, 2e-3)]
    assert kept(seen, (0.2, 0.8), (2.2, 2.8)) == (True, False)


def test_a_window_between_two_samples_is_judged_by_them() -> None:
    """Also the last, after which none was taken."""
    assert kept(samples(0, 0, 1), (0.4, 0.5), (1.4, 1.5), (2.0, 2.1)) == (True, False, False)


@pytest.mark.parametrize(("count", "quiet"), [(6, True), (5, False), (0, False)])
def test_sixty_percent_must_be_undisturbed(count: int, quiet: bool) -> None:
    """Of ten."""
    assert Quietness((True,) * count + (False,) * (10 - count)).quiet is quiet


def test_without_samples_nothing_is_dropped() -> None:
    """Nothing is known."""
    assert kept([], (0, 1)) == (True,)


def test_the_machine_is_sampled() -> None:
    """What this process takes is counted as its own, and is part of what is busy."""
    with LoadMonitor() as monitor:
        sum(range(3_000_000))
    first, *_, last = monitor.samples
    assert last.at_s > first.at_s
    assert last.busy_s >= first.busy_s
    assert last.own_s >= first.own_s
    assert sample_load().own_s >= sum(os.times()[:2]) - 0.5
