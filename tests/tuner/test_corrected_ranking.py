"""Is the choice of a plan the fastest that was measured, told as the trials correct the model?"""

import pytest

from profiles import library
from tests.tuner.factories import make_request
from tests.tuner.studies import make_trial
from tuner.enactment import configuration_of
from tuner.options import options_of
from tuner.plan import Plan
from tuner.planning import answer
from tuner.trials import Trial

REQUEST = make_request(search="exhaustive")
OPTIONS = options_of(REQUEST, library)
MODEL = answer(REQUEST, library)


def corrected(*trials: Trial) -> Plan:
    """The plan with these trials."""
    return answer(REQUEST, library, trials=trials)


def test_the_fastest_measured_is_chosen_however_the_model_ranks_it() -> None:
    """The model's first is twice as slow as it says, the third is as fast as predicted."""
    plan = corrected(make_trial(OPTIONS[0], factor=2.0), make_trial(OPTIONS[2]))

    assert plan.chosen is not None
    assert configuration_of(plan.chosen) == OPTIONS[2].configuration
    assert plan.candidates[0].predicted == plan.chosen.predicted
    later = [candidate.predicted.iteration_s for candidate in plan.candidates[1:]]
    assert later == sorted(later)
    assert any("corrected by 2 measured trials" in note for note in plan.provenance.notes)


def test_a_corrected_prediction_keeps_its_parts_and_has_an_error_bar() -> None:
    """All parts grow alike, and the measured time lies in the bar."""
    plan = corrected(make_trial(OPTIONS[0], factor=1.5))

    assert plan.chosen is not None
    told = plan.chosen.predicted
    assert sum(told.breakdown.model_dump().values()) == pytest.approx(told.iteration_s)
    assert told.throughput_samples_per_s == pytest.approx(64 / told.iteration_s)
    assert told.error_bar is not None
    assert told.error_bar.low_s <= 1.5 * OPTIONS[0].predicted_s <= told.error_bar.high_s
    assert told.iteration_s > 1.3 * OPTIONS[0].predicted_s


def test_what_ran_out_of_memory_is_refused_with_what_was_predicted() -> None:
    """It is no candidate any more, and the reason says so."""
    plan = corrected(make_trial(OPTIONS[0], status="out_of_memory"), make_trial(OPTIONS[1]))

    assert OPTIONS[0].configuration not in map(configuration_of, plan.candidates)
    (refused,) = [entry for entry in plan.rejected if "ran out of memory in a trial" in entry.reason]
    assert refused.configuration.model_dump() == OPTIONS[0].configuration.document()
    assert "were predicted" in refused.reason


def test_trials_that_told_nothing_leave_the_models_order() -> None:
    """There is no error bar, and the choice is the model's."""
    plan = corrected(make_trial(OPTIONS[0], status="failed"))

    assert MODEL.chosen is not None
    assert plan.chosen is not None
    assert plan.chosen.predicted.error_bar is None
    assert plan.chosen.predicted.iteration_s == pytest.approx(MODEL.chosen.predicted.iteration_s)
