"""What does a study tell when it is over, and which configurations may be tried in it?"""

import pytest

from profiles import library
from tests.tuner.factories import make_plan, make_request
from tests.tuner.studies import grid, make_configuration, make_option, make_trial, run_study, slow_links
from tuner.errors import RequestError
from tuner.options import options_of
from tuner.plan import Plan
from tuner.trials import Trial, TrialStatus
from tuner.tuning import Tuning, summarise, tuning

OPTIONS = grid()


def test_a_study_tells_its_error_before_and_after_its_winner_and_what_it_saved() -> None:
    """The trials make the model better at configurations that a fit has not seen."""
    rows, _ = run_study(OPTIONS, slow_links)
    known = {trial.configuration for trial in rows}
    running = next(option for option in OPTIONS if option.configuration not in known)
    summary = summarise(OPTIONS, [*rows, make_trial(running, status="running")])

    assert summary.winner == min(rows, key=lambda trial: trial.measured_s or 0.0)
    assert summary.error_before is not None
    assert summary.error_after is not None
    assert summary.error_before > 0.1
    assert summary.error_after < 0.25 * summary.error_before
    assert (summary.tried, summary.trials_saved) == (11, 49)
    assert summary.device_seconds == 1_000


def test_the_error_before_is_the_models() -> None:
    """Twice as slow as predicted is an error of a half of the measured time."""
    summary = summarise(OPTIONS, [make_trial(OPTIONS[0], factor=2.0)])

    assert summary.error_before == pytest.approx(0.5)
    assert summary.error_after == pytest.approx(0.5)


def test_nothing_measured_has_no_error_and_no_winner() -> None:
    """Rows that told nothing are no result."""
    summary = summarise(OPTIONS, [make_trial(OPTIONS[0], status="failed")])

    assert (summary.winner, summary.error_before, summary.error_after) == (None, None, None)


def test_the_document_is_the_plan_with_its_trials() -> None:
    """Its keys are a plan's, and what the trials gave: the winner, errors, what was saved, why it stopped."""
    plan, request = make_plan(), make_request()
    options = options_of(request, library)
    rows = [make_trial(options[0], factor=1.2), make_trial(options[1], status="out_of_memory")]
    document = tuning(plan, options, rows, stopped="2 of 2 trials were started").model_dump(mode="json")

    assert set(document) - set(Plan.model_fields) == {
        "trials", "model_error", "winner", "model_choice", "trials_saved", "stopped",
    }  # fmt: skip
    assert {name: document[name] for name in Plan.model_fields} == plan.model_dump(mode="json")
    by_status = {trial["status"]: trial for trial in document["trials"]}
    assert by_status["ok"]["measured"] == pytest.approx(1.2 * by_status["ok"]["predicted"])
    assert by_status["out_of_memory"]["measured"] is None
    assert document["winner"] == options[0].configuration.document()
    assert document["trials_saved"] == len(options) - 2
    assert Tuning.model_validate_json(tuning(plan, options, rows).to_json()) == tuning(plan, options, rows)


def test_options_are_what_fits_fastest_first_with_the_plans_choice_ahead() -> None:
    """The exhaustive plan and the options agree on the best, its time and its memory."""
    options = options_of(make_request(), library)
    chosen = make_plan(search="exhaustive").chosen

    assert chosen is not None
    assert options[0].predicted_s == pytest.approx(chosen.predicted.iteration_s)
    assert options[0].configuration.document().items() <= chosen.model_dump().items()
    reserve = chosen.memory[0].reserve_bytes
    assert options[0].needed_bytes == pytest.approx(chosen.peak_memory_bytes - reserve)
    times = [option.predicted_s for option in options]
    assert times == sorted(times)
    assert all(option.needed_bytes <= option.capacity_bytes for option in options)


def test_a_trial_that_is_ok_needs_a_time_and_no_other_has_one() -> None:
    """A row that cannot be is refused where it is made."""
    with pytest.raises(RequestError, match="has one exactly when it is ok or noisy"):
        Trial(make_configuration(), 1.0, TrialStatus.OK)
    with pytest.raises(RequestError, match="has one exactly when it is ok or noisy"):
        Trial(make_configuration(), 1.0, TrialStatus.FAILED, measured_s=1.0)
    with pytest.raises(RequestError, match="finite time above 0"):
        Trial(make_configuration(), 1.0, TrialStatus.OK, measured_s=float("nan"))
    with pytest.raises(RequestError, match="only finite times above 0"):
        make_option(predicted_s=0.0)
