"""Are trials made one after the other until it is enough, whatever becomes of them?"""

from collections.abc import Callable

from executor.tuning.bench import Attempt
from executor.tuning.session import MOST_FAILURES, Session
from tests.tuner.studies import grid, make_trial, slow_links
from tuner.configuration import Configuration
from tuner.refinement import Budget
from tuner.trials import Option, Trial

OPTIONS = {option.configuration: option for option in grid()}


class Truth:
    """A bench on which every configuration takes what a function says, and nothing is launched."""

    def __init__(self, trial: Callable[[Option], Trial]) -> None:
        self._trial = trial

    def attempt(self, configuration: Configuration, predicted_s: float) -> Attempt:
        """What the function says."""
        option = OPTIONS[configuration]
        assert predicted_s == option.predicted_s
        return Attempt(self._trial(option))


def session(trial: Callable[[Option], Trial], *, rows: tuple[Trial, ...] = (), trials: int = 8) -> Session:
    """A session on such a bench."""
    return Session(Truth(trial), tuple(OPTIONS.values()), rows, budget=Budget(trials=trials))


def test_trials_go_on_until_they_are_spent() -> None:
    """Those of before count, and each is told before it runs."""
    known = make_trial(next(iter(OPTIONS.values())))
    told: list[int] = []
    going = session(
        lambda option: make_trial(option, factor=slow_links(option) / option.predicted_s), rows=(known,)
    )
    made = list(going.attempts(lambda number, _: told.append(number)))

    assert told == list(range(2, 9))
    assert [known, *(attempt.row for attempt in made)] == going.rows
    assert going.stopped == "8 of 8 trials were started"


def test_what_fails_time_and_again_is_given_up() -> None:
    """The next would fail as well: a cluster that does not answer would take its time for each."""
    going = session(lambda option: make_trial(option, status="failed"))

    assert len(list(going.attempts(lambda *_: None))) == MOST_FAILURES
    assert "4 trials in a row gave no answer" in (going.stopped or "")


def test_out_of_memory_is_an_answer() -> None:
    """It goes on to what needs less."""
    going = session(lambda option: make_trial(option, status="out_of_memory"))

    assert len(list(going.attempts(lambda *_: None))) > MOST_FAILURES
