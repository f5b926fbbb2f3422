"""Do the trials correct what the model says of time and memory, as surely as the error bars claim?"""

import statistics

import numpy as np
import pytest

from tests.tuner.studies import GB, Truth, grid, make_configuration, make_option, make_trial, slow_links
from tuner.configuration import Configuration
from tuner.correction import LEVEL, correct
from tuner.memory_correction import corrected_bytes
from tuner.trials import Option, Trial, measured

OPTIONS = grid()


def trials_of(truth: Truth, *, seed: int, count: int, noise: float = 0.01) -> list[Trial]:
    """Trials of some options, chosen at random."""
    random = np.random.default_rng(seed)
    tried = random.choice(len(OPTIONS), count, replace=False)
    factors = np.exp(random.normal(0, noise, count))
    return [
        make_trial(OPTIONS[place], factor=truth(OPTIONS[place]) / OPTIONS[place].predicted_s * factor)
        for place, factor in zip(tried, factors, strict=True)
    ]


def test_without_trials_the_model_stands() -> None:
    """Nothing is corrected, and the bar is around the prediction."""
    corrected = correct([], OPTIONS)

    assert corrected.expected_s == pytest.approx([option.predicted_s for option in OPTIONS])
    assert (corrected.low_s < corrected.expected_s).all()
    assert (corrected.expected_s < corrected.high_s).all()
    assert len(corrected.unseen_s) == 0


@pytest.mark.parametrize("truth", [slow_links, lambda option: 1.4 * option.predicted_s])
def test_trials_correct_what_was_not_tried(truth: Truth) -> None:
    """Eight trials halve the error of the other 52 predictions at least, and narrow their bars."""
    rows = trials_of(truth, seed=1, count=8)
    tried = {trial.configuration for trial in rows}
    left = [place for place, option in enumerate(OPTIONS) if option.configuration not in tried]
    corrected = correct(rows, OPTIONS)

    before = statistics.mean(abs(OPTIONS[p].predicted_s / truth(OPTIONS[p]) - 1) for p in left)
    after = statistics.mean(abs(corrected.expected_s[p] / truth(OPTIONS[p]) - 1) for p in left)
    assert after < before / 2
    assert (corrected.deviation < correct([], OPTIONS).deviation).all()


def test_error_bars_hold_the_share_that_they_promise() -> None:
    """Over 20 studies of 8 trials the bars hold at least 90 % of what was not tried."""
    held = []
    for seed in range(20):
        rows = trials_of(slow_links, seed=seed, count=8)
        tried, corrected = {trial.configuration for trial in rows}, correct(rows, OPTIONS)
        for place, option in enumerate(OPTIONS):
            if option.configuration not in tried:
                held.append(bool(corrected.low_s[place] <= slow_links(option) <= corrected.high_s[place]))

    assert sum(held) / len(held) >= LEVEL


def test_a_trial_is_predicted_by_the_others_alone() -> None:
    """What is said of an unseen trial is what the correction without it says of its configuration."""
    rows = trials_of(slow_links, seed=3, count=6)
    corrected = correct(rows, OPTIONS)

    for place, trial in enumerate(measured(rows)):
        others = [row for row in rows if row is not trial]
        option = next(n for n, o in enumerate(OPTIONS) if o.configuration == trial.configuration)
        assert corrected.unseen_s[place] == pytest.approx(correct(others, OPTIONS).expected_s[option])


def test_what_was_measured_replaces_what_was_inferred() -> None:
    """A measured configuration is expected near its measurement, whatever the others say."""
    rows = trials_of(lambda option: option.predicted_s, seed=0, count=10)
    odd = make_trial(OPTIONS[0], factor=1.5)
    rows = [row for row in rows if row.configuration != odd.configuration]
    corrected = correct([*rows, odd], OPTIONS)

    assert corrected.expected_s[0] == pytest.approx(odd.measured_s, rel=0.05)


def test_trials_of_configurations_that_are_no_options_count() -> None:
    """A study whose options were planned anew keeps what it learnt."""
    elsewhere = make_trial(make_option(make_configuration("gems", size=32)), factor=2.0)

    assert (correct([elsewhere], OPTIONS).expected_s > correct([], OPTIONS).expected_s).all()


def sizes(needed_gb: dict[int, float], *, depth: int = 4) -> list[Option]:
    """Options of one layout at several micro-batch sizes."""
    return [
        make_option(make_configuration(depth=depth, size=size), needed_bytes=needed * GB)
        for size, needed in needed_gb.items()
    ]


def corrected_gb(rows: list[Trial], options: list[Option]) -> dict[Configuration, float]:
    """Memory that each option is thought to need."""
    found = corrected_bytes(rows, options)
    return {option.configuration: needed / GB for option, needed in zip(options, found, strict=True)}


def test_running_out_of_memory_raises_what_similar_configurations_need() -> None:
    """The same at a larger micro-batch cannot fit; other layouts need somewhat more than was thought."""
    same, other = sizes({1: 50, 2: 60, 4: 75}), sizes({2: 78}, depth=8)
    options = [*same, *other]
    after = corrected_gb([make_trial(same[1], status="out_of_memory")], options)

    assert after[same[1].configuration] > 80
    assert after[same[2].configuration] > 80
    assert 50 < after[same[0].configuration] < 80
    assert after[other[0].configuration] > 80


def test_running_out_of_memory_teaches_less_than_a_measured_peak_refutes() -> None:
    """Where peaks are as predicted, one row out of memory does not shut everything out."""
    options = [*sizes({2: 79}), *sizes({2: 70}, depth=8), *sizes({2: 60}, depth=2)]
    rows = [make_trial(options[0], status="out_of_memory"), make_trial(options[2], peak_bytes=60 * GB)]
    after = corrected_gb(rows, options)

    assert after[options[0].configuration] > 80
    assert after[options[2].configuration] == pytest.approx(60)
    assert after[options[1].configuration] < 80


def test_measured_peaks_correct_the_memory_model() -> None:
    """Everything needs a tenth more than predicted: so do the others."""
    options = [*sizes({1: 30, 2: 40}), *sizes({2: 50}, depth=8)]
    after = corrected_gb(
        [make_trial(option, peak_bytes=1.1 * option.needed_bytes) for option in options[:2]], options
    )

    assert after[options[0].configuration] == pytest.approx(33)
    assert after[options[2].configuration] == pytest.approx(55, rel=0.04)
