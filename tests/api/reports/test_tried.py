"""Does the report of a tuning show its trials, and the measured choice?"""

import re

from api.reports.report import render_report
from api.reports.tried import tried, why_measured
from profiles import library
from tests.tuner.factories import make_request
from tests.tuner.studies import make_trial
from tuner.options import options_of
from tuner.planning import answer
from tuner.trials import Trial
from tuner.tuning import Tuning, tuning

REQUEST = make_request(search="exhaustive")
OPTIONS = options_of(REQUEST, library)
BEFORE = answer(REQUEST, library)


def make(*trials: Trial) -> Tuning:
    """The tuning of these trials."""
    plan = answer(REQUEST, library, trials=trials)
    return tuning(plan, OPTIONS, trials, before=BEFORE, stopped="3 of 3 trials were started")


TUNING = make(
    make_trial(OPTIONS[0], factor=2.0),
    make_trial(OPTIONS[3], factor=1.1),
    make_trial(OPTIONS[5], status="failed"),
)


def test_the_page_has_every_trial_and_the_measured_choice() -> None:
    """With errors before and after, what was saved, and why it stopped."""
    page = render_report(TUNING, standalone=True)
    words = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page[page.index('id="trials"') :]))

    assert page.count('<circle cx="') >= 2
    assert "3 trials, 2 with a time." in words
    assert "Stopped because 3 of 3 trials were started." in words
    assert f"would have taken {len(OPTIONS) - 3:,} more" in words
    assert "failed" in words
    assert "measured; " in page


def test_the_choice_says_what_the_model_alone_had_chosen() -> None:
    """And by how much it is faster than the next that was measured."""
    told = why_measured(TUNING)

    assert "the fastest of 2 that were measured" in told
    assert "The model alone had put" in told


def test_without_trials_there_is_no_section() -> None:
    """The page is that of a plan, and the reasons are the model's."""
    untried = tuning(BEFORE, OPTIONS, ())

    assert tried(untried) is None
    assert 'id="trials"' not in render_report(untried, standalone=True)
    assert "is the fastest of" in why_measured(untried)
