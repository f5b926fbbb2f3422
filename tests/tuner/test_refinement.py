"""What is proposed next, and when does it stop?"""

import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.studies import GB, grid, make_configuration, make_option, make_trial, run_study, slow_links
from tuner.correction import correct
from tuner.errors import RequestError
from tuner.memory_correction import corrected_bytes
from tuner.refinement import Budget, StopReason, refine
from tuner.trials import Option, Trial, TrialStatus

OPTIONS = grid()
FEW = OPTIONS[::9]
STATUSES = st.sampled_from([*TrialStatus, TrialStatus.OK, TrialStatus.OK])


@st.composite
def studies(draw: st.DrawFn, options: tuple[Option, ...] = OPTIONS) -> list[Trial]:
    """Rows of some options in any state; some that ended without an answer twice."""
    rows = []
    for option in draw(st.lists(st.sampled_from(options), unique_by=lambda o: o.configuration)):
        status, factor = draw(STATUSES), draw(st.floats(0.7, 2.0))
        rows.append(make_trial(option, status=status, factor=factor))
        if rows[-1].is_open and draw(st.booleans()):
            rows.append(make_trial(option, status="failed"))
    return rows


@settings(max_examples=25, deadline=None)
@given(rows=studies(), order=st.randoms(use_true_random=False), seed=st.integers(0, 5))
def test_the_same_rows_give_the_same_answer_in_any_order(rows: list[Trial], order: Random, seed: int) -> None:
    """The order in which workers reported must not show."""
    shuffled = list(rows)
    order.shuffle(shuffled)

    assert refine(OPTIONS, rows, seed=seed, count=2) == refine(OPTIONS, shuffled, seed=seed, count=2)


@settings(max_examples=25, deadline=None)
@given(rows=studies(FEW), count=st.integers(1, 4))
def test_nothing_known_or_running_is_proposed_again(rows: list[Trial], count: int) -> None:
    """What is queued, running, measured or out of memory is closed; two attempts at most for the others."""
    proposed = [each.configuration for each in refine(FEW, rows, seed=0, count=count).proposals]

    closed = {trial.configuration for trial in rows if not trial.is_open}
    attempts = Counter(trial.configuration for trial in rows)
    assert len(set(proposed)) == len(proposed)
    assert not closed & set(proposed)
    assert all(attempts[configuration] < 2 for configuration in proposed)


@settings(max_examples=40, deadline=None)
@given(rows=studies())
def test_it_stops_early_exactly_when_nothing_untried_can_win(rows: list[Trial]) -> None:
    """The optimistic ends of the error bars of what fits are no better than the best measured."""
    decision = refine(OPTIONS, rows, seed=0)

    low_s, needed = correct(rows, OPTIONS).low_s, corrected_bytes(rows, OPTIONS)
    best_s = min((trial.measured_s for trial in rows if trial.measured_s), default=float("inf"))
    tried = {trial.configuration for trial in rows}
    can_win = [
        option
        for place, option in enumerate(OPTIONS)
        if option.configuration not in tried
        and needed[place] <= option.capacity_bytes
        and low_s[place] < best_s
    ]
    if can_win:
        assert decision.stop is None
        assert decision.proposals[0].configuration in {option.configuration for option in can_win}
    else:
        assert all(proposal.by == "retry" for proposal in decision.proposals)


@settings(max_examples=25, deadline=None)
@given(rows=studies(), trials=st.integers(1, 30), spent=st.integers(0, 4_000), count=st.integers(1, 3))
def test_budgets_are_never_exceeded(rows: list[Trial], trials: int, spent: int, count: int) -> None:
    """Not by trials, and not by device-seconds if trials go on taking what they took."""
    decision = refine(OPTIONS, rows, seed=0, budget=Budget(trials, float(spent)), count=count)

    ended = [trial for trial in rows if trial.ended]
    typical = 100.0 if ended else 0.0
    if decision.proposals:
        assert len(rows) + len(decision.proposals) <= trials
        assert typical * (len(rows) + len(decision.proposals)) <= spent


def test_the_models_best_comes_first() -> None:
    """Before anything was measured the ranking decides, and workers get its list."""
    proposals = refine(OPTIONS, [], seed=0, count=3).proposals

    ranked = sorted(OPTIONS, key=lambda option: option.predicted_s)
    assert [each.configuration for each in proposals] == [option.configuration for option in ranked[:3]]
    assert {each.by for each in proposals} == {"ranking"}
    assert proposals[0].low_s < proposals[0].expected_s == ranked[0].predicted_s < proposals[0].high_s


@pytest.mark.parametrize("status", ["failed", "timed_out"])
def test_what_ended_without_an_answer_is_tried_once_more_when_nothing_else_can_win(status: str) -> None:
    """A lost node may have been the reason; twice it was not."""
    first, second = FEW[:2]
    rows = [make_trial(first, status=status), make_trial(second)]

    again = refine((first, second), rows, seed=0)
    assert [(each.configuration, each.by) for each in again.proposals] == [(first.configuration, "retry")]

    last = refine((first, second), [*rows, make_trial(first, status=status)], seed=0)
    assert last.stop is not None
    assert last.stop.reason is StopReason.EVERYTHING_TRIED


def test_what_others_disturbed_is_tried_once_more_where_it_may_be_the_fastest() -> None:
    """Its time says less than a quiet one's, and it counts until it is measured again."""
    first, second = make_option(), make_option(make_configuration(size=4))
    noisy = [make_trial(first, status="noisy", factor=1.03), make_trial(second)]

    assert [each.by for each in refine((first, second), noisy, seed=0).proposals] == ["retry"]
    again = refine((first, second), [*noisy, make_trial(first, factor=1.03)], seed=0)
    assert again.stop is not None
    slow = [make_trial(first, status="noisy", factor=2.0), make_trial(second)]
    assert refine((first, second), slow, seed=0).stop is not None


def test_everything_measured_is_the_end() -> None:
    """There is nothing left to propose."""
    decision = refine(FEW, [make_trial(option) for option in FEW], seed=0)

    assert decision.proposals == ()
    assert decision.stop is not None
    assert decision.stop.reason is StopReason.EVERYTHING_TRIED
    assert f"all {len(FEW)} configurations" in decision.stop.text


def test_it_waits_for_running_trials_before_it_gives_up() -> None:
    """What runs may fail, or change what can win; the number of trials is final."""
    rows = [make_trial(option) for option in FEW[1:]] + [make_trial(FEW[0], status="running")]

    waiting = refine(FEW, rows, seed=0)
    assert (waiting.proposals, waiting.stop, waiting.waiting_for) == ((), None, 1)

    spent = refine(FEW, rows, seed=0, budget=Budget(trials=len(rows)))
    assert spent.stop is not None
    assert spent.stop.reason is StopReason.TRIALS_SPENT


def test_device_seconds_stop_it_with_the_numbers() -> None:
    """Two trials of 100 device-seconds leave no room for a third in 250."""
    rows = [make_trial(option) for option in FEW[:2]]

    decision = refine(FEW, rows, seed=0, budget=Budget(device_seconds=250.0))

    assert decision.stop is not None
    assert decision.stop.reason is StopReason.DEVICE_SECONDS_SPENT
    assert "200 of 250 device-seconds are spent, and a trial takes 100" in decision.stop.text


def test_no_option_is_a_clear_error() -> None:
    """The message says where to look."""
    with pytest.raises(RequestError, match=r"no configuration to try.*smallest change"):
        refine((), [], seed=0)


def test_no_proposal_cannot_be_asked_for() -> None:
    """Zero is not a number of proposals."""
    with pytest.raises(RequestError, match="0 configurations were asked for"):
        refine(FEW, [], seed=0, count=0)


def test_an_option_far_behind_is_not_tried() -> None:
    """An error bar of some percent does not reach a factor of ten."""
    fast = make_option(predicted_s=1.0)
    slow = make_option(make_configuration(size=8), predicted_s=10.0)

    decision = refine((fast, slow), [make_trial(fast)], seed=0)

    assert decision.stop is not None
    assert decision.stop.reason is StopReason.NOTHING_CAN_WIN
    assert "1 untried configurations" in decision.stop.text


def test_ten_trials_find_what_the_model_does_not_know() -> None:
    """Slow links, one slow schedule, and an efficiency by size: the mean regret is at most 1.5 %."""
    best_s = min(map(slow_links, OPTIONS))
    truth = {option.configuration: slow_links(option) for option in OPTIONS}
    first = min(OPTIONS, key=lambda option: option.predicted_s)
    regrets = []
    for seed in range(10):
        rows, _ = run_study(OPTIONS, slow_links, seed=seed)
        picked = min(rows, key=lambda trial: trial.measured_s or 0.0)
        assert len(rows) <= 10
        regrets.append(truth[picked.configuration] / best_s - 1)

    assert truth[first.configuration] / best_s - 1 > 0.05
    assert statistics.mean(regrets) <= 0.015


def test_a_model_that_is_right_up_to_a_factor_needs_few_trials() -> None:
    """All configurations 30 % slower: the first is the winner, and most of the 60 are never run."""
    rows, last = run_study(OPTIONS, lambda option: 1.3 * option.predicted_s, noise=0.002, trials=60)

    assert last.stop is not None
    assert last.stop.reason is StopReason.NOTHING_CAN_WIN
    assert len(rows) <= 15
    picked = min(rows, key=lambda trial: trial.measured_s or 0.0)
    assert picked.predicted_s <= 1.01 * min(option.predicted_s for option in OPTIONS)


def test_what_cannot_fit_is_not_proposed_although_the_model_ranks_it_first() -> None:
    """An option beyond the capacity is left out until measurements say that it needs less."""
    large = make_option(predicted_s=0.5, needed_bytes=81 * GB)
    fitting = make_option(make_configuration(size=1), predicted_s=1.0)

    assert refine((large, fitting), [], seed=0).proposals[0].configuration == fitting.configuration

    rows = [make_trial(fitting, peak_bytes=0.8 * fitting.needed_bytes)]
    assert refine((large, fitting), rows, seed=0).proposals[0].configuration == large.configuration


WITHOUT_OPTUNA = """
import sys
sys.modules["optuna"] = None
from cli.main import run
from tests.tuner.studies import grid, make_trial
from tuner.refinement import refine
options = grid()
print([each.by for each in refine(options, [make_trial(options[0])], seed=0, sampling=False).proposals])
sys.exit(run(["plan", "--model", "tiny-gpt", "--cluster", "local-cpu", "--devices=2", "--mini-batch-size=8"]))
"""


def test_without_optuna_plans_are_made_and_trials_proposed() -> None:
    """It is an extra: without the sampler the best by expected improvement are tried."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(root)!r})\n{WITHOUT_OPTUNA}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("['correction']")
