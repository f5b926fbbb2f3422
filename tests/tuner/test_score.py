"""Does a score say how far off predictions are, in the quantity that was measured?"""

import pytest

from profiles import library
from profiles.measurement import Measurements
from tests.tuner.measured import make_measurement, measured_as
from tuner.calibration import calibrate
from tuner.coefficients import values_of
from tuner.replay import gather_measured
from tuner.score import score


def plain(*rows: dict[str, object]) -> Measurements:
    """Rows measured exactly as the cluster predicts them."""
    values = values_of(library.load_cluster("piz-daint").software)
    return measured_as([make_measurement(**row) for row in rows], values)


def faster(document: Measurements, factor: float) -> Measurements:
    """The same with every iteration so many times faster."""
    rows = tuple(
        row.model_copy(update={"iteration_s": (row.iteration_s or 1.0) / factor})
        for row in document.measurements
    )
    return document.model_copy(update={"measurements": rows})


def test_errors_are_signed_and_relative_to_the_measurement() -> None:
    """Runs twice as fast as predicted: their iterations are predicted 100 % too long."""
    document = faster(plain({"micro_batch_size": 4}, {"micro_batch_size": 8}), 2.0)
    found = score(document, library)
    assert found.count == 2
    assert [row.error for row in found.rows] == pytest.approx([1.0, 1.0], rel=0.3)
    assert found.bias == pytest.approx(sum(row.error for row in found.rows) / 2)
    assert found.error_bar_coverage is None


def test_a_throughput_is_scored_as_a_throughput() -> None:
    """The same runs given as samples per second are predicted too slow, by half."""
    document = faster(plain({"micro_batch_size": 4}), 2.0)
    row = document.measurements[0]
    rate = 512 / (row.iteration_s or 1.0)
    as_rate = row.model_copy(update={"iteration_s": None, "throughput_samples_per_s": rate})
    timed = score(document, library).rows[0]
    rated = score(document.model_copy(update={"measurements": (as_rate,)}), library).rows[0]
    assert (timed.quantity, rated.quantity) == ("iteration_s", "samples_per_s")
    assert (1 + timed.error) * (1 + rated.error) == pytest.approx(1.0)


def test_milliseconds_under_the_name_of_seconds_are_doubted() -> None:
    """The row is scored as it stands, and a note asks for its unit."""
    (note,) = score(faster(plain({"micro_batch_size": 4}), 1e-3), library).notes
    assert "is it in seconds" in note
    assert score(faster(plain({"micro_batch_size": 4}), 50.0), library).notes == ()


def test_only_the_schedules_that_are_named_are_scored() -> None:
    """And those without a flush stand apart."""
    document = plain({"schedule": "gpipe"}, {"schedule": "dapple"}, {"schedule": "pipedream_2bw"})
    found = score(document, library)
    assert (found.count, found.asynchronous.count) == (2, 1)
    assert score(document, library, schedules=["gpipe"]).count == 1


def test_with_a_calibration_both_predictions_are_told() -> None:
    """The calibrated one with its bar, and whether the calibration has seen the document."""
    rows: list[dict[str, object]] = [{"micro_batch_size": size} for size in (1, 2, 4, 8, 16)]
    document = faster(plain(*rows), 1.5)
    found = score(document, library, calibration=calibrate([document], library))
    assert found.in_sample
    assert found.mape is not None
    assert found.uncalibrated.mape is not None
    assert found.mape < found.uncalibrated.mape
    for row in found.rows:
        assert row.low is not None
        assert row.high is not None
        assert row.low <= row.predicted <= row.high


def test_what_cannot_be_predicted_is_named() -> None:
    """A depth that the schedule does not allow."""
    document = Measurements(source="made up", measurements=(make_measurement(schedule="chimera", depth=3),))
    found = score(document, library)
    assert found.count == 0
    assert found.mape is None
    assert "measurement 0" in found.skipped[0]


def test_a_model_given_by_its_sizes_has_eager_attention_unless_it_was_measured_with_another() -> None:
    """GPT-2 as it was written; a preset keeps its own."""
    measured = library.load_measurements("vtrain-a100").measurements[0]
    fused = measured.model_copy(update={"attention": "flash"})
    found = [gather_measured(each, library).description.attention for each in (measured, fused)]
    assert found == ["eager", "flash"]
