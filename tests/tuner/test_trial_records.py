"""Are the trials of a study kept as measurements, and found again by the study they belong to?"""

from dataclasses import replace

import pytest

from profiles import library
from profiles.measurement import Measurement
from tests.tuner.factories import make_request
from tests.tuner.studies import make_trial
from tuner.inputs import gather
from tuner.options import options_of
from tuner.trial_records import Task, measurement_of, trials_of
from tuner.trials import TrialStatus

REQUEST = make_request()
OPTIONS = options_of(REQUEST, library)
TASK = Task.of(gather(REQUEST, library), model="tiny-gpt", launcher="local")

COMPRESSED = Task.of(
    gather(REQUEST.model_copy(update={"compression": "fp16"}), library), model="tiny-gpt", launcher="local"
)


def kept(status: str, *, place: int = 0, peaks: tuple[int, ...] = (7, 9)) -> Measurement | None:
    """The measurement of a trial of an option."""
    return measurement_of(make_trial(OPTIONS[place], status=status), TASK, peaks_bytes=peaks)


@pytest.mark.parametrize("status", ["ok", "noisy", "out_of_memory"])
def test_what_gave_an_answer_is_found_again(status: str) -> None:
    """With its status, its time and the memory of its fullest rank."""
    measurement = kept(status)

    assert measurement is not None
    (row,) = trials_of([measurement], TASK, OPTIONS)
    ran = status != "out_of_memory"
    assert (row.configuration, row.status) == (OPTIONS[0].configuration, TrialStatus(status))
    assert row.measured_s == (OPTIONS[0].predicted_s if ran else None)
    assert row.peak_bytes == (9 if ran else None)


@pytest.mark.parametrize("status", ["failed", "timed_out", "queued", "running"])
def test_what_gave_no_answer_is_no_measurement(status: str) -> None:
    """It may be tried again."""
    assert kept(status) is None


def test_measurements_of_another_study_are_not_taken_for_its_own() -> None:
    """Another model, cluster, precision, mini-batch, optimizer or compression is another study."""
    measurement = kept("ok")

    assert measurement is not None
    for change in (
        {"model": "gpt2-small"},
        {"cluster": "local-cpu"},
        {"devices": 4},
        {"precision": "bfloat16"},
        {"mini_batch_size": 32},
        {"settings": TASK.settings.replace("adam", "sgd")},
        {"settings": COMPRESSED.settings},
    ):
        assert trials_of([measurement], replace(TASK, **change), OPTIONS) == ()


def test_a_configuration_that_is_not_to_be_tried_is_left_out() -> None:
    """The study was narrowed since."""
    measurement = kept("ok")

    assert measurement is not None
    assert trials_of([measurement], TASK, OPTIONS[1:]) == ()
