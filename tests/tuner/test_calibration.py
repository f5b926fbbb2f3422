"""Are the coefficients of measurements found again, with an uncertainty, and what is not told refused?"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from profiles import library
from profiles.calibration import Calibration, Coefficient
from profiles.measurement import Measurements
from tests.tuner.factories import make_request
from tests.tuner.measured import TRUTH, make_measurement, measured_as, truth, various
from tuner.calibration import calibrate, corrected
from tuner.coefficients import NAMES, values_of, with_values
from tuner.errors import CalibrationError
from tuner.observation import observe
from tuner.planning import answer


@pytest.fixture(scope="module")
def made_up() -> Measurements:
    """Measurements that have the coefficients TRUTH."""
    return measured_as(various(), truth())


@pytest.fixture(scope="module")
def learnt(made_up: Measurements) -> Calibration:
    """What is fitted on them."""
    return calibrate([made_up], library)


def test_measurements_that_the_model_makes_are_described(learnt: Calibration) -> None:
    """From the cluster's own values, which are far off; where chains change the fit may stop early."""
    (found,) = learnt.sets
    values: dict[str, float] = {coefficient.name: coefficient.value for coefficient in found.coefficients}
    for name, within in (("compute_factor", 0.05), ("launch_floor_s", 0.05), ("collective_factor", 0.15)):
        assert values[name] == pytest.approx(TRUTH[name], rel=within)
    assert all(coefficient.fitted for coefficient in found.coefficients)
    assert found.mean_error < 0.01


def test_one_wild_measurement_does_not_move_the_rest(made_up: Measurements) -> None:
    """A run that took three times as long counts in proportion, not in square."""
    first, *others = made_up.measurements
    assert first.iteration_s is not None
    wild = first.model_copy(update={"iteration_s": 3 * first.iteration_s})
    document = made_up.model_copy(update={"measurements": (wild, *others)})
    calibration = calibrate([document], library)
    seen, _ = observe(others, library)
    predicted = [corrected(each, calibration) for each in seen]
    errors = [
        each.iteration_s / row.measured_s - 1 for each, row in zip(predicted, seen, strict=True) if each
    ]
    assert float(np.abs(errors).mean()) < 0.02


def test_equal_measurements_give_equal_bytes(made_up: Measurements, learnt: Calibration) -> None:
    """And the document reads back as it was written."""
    assert calibrate([made_up], library).to_json() == learnt.to_json()
    assert Calibration.from_json(learnt.to_json()) == learnt
    assert learnt.fitted_on == (made_up.fingerprint(),)


def test_a_collinear_set_is_refused_its_coefficients_and_told_what_helps() -> None:
    """One layout at one size: what does not follow stays the cluster's, and what would tell it is named."""
    rows = [
        make_measurement(schedule="gpipe", micro_batch_size=8, mini_batch_size=32 * n) for n in range(1, 25)
    ]
    calibration = calibrate([measured_as(rows, truth())], library)
    (found,) = calibration.sets
    refused = {each.name: each for each in found.coefficients if not each.fitted}
    assert {"message_factor", "iteration_overhead_s"} <= refused.keys()
    plain = dict(zip(NAMES, values_of(library.load_cluster("piz-daint").software).tolist(), strict=True))
    for name, coefficient in refused.items():
        assert coefficient.value == plain[name]
        assert coefficient.reason
        assert coefficient.standard_error is None
    assert any(coefficient.helped_by for coefficient in refused.values())


def test_schedules_without_a_flush_are_calibrated_apart() -> None:
    """Rows of theirs change nothing for the others."""
    flushed = various()[::3]
    others = [make_measurement(schedule="pipedream_2bw", micro_batch_size=size) for size in (4, 8, 16)]
    both = measured_as([*flushed, *others], truth())
    sets = calibrate([both], library).sets
    assert [(each.synchronous, each.measurements) for each in sets] == [(False, 3), (True, len(flushed))]
    alone = calibrate([measured_as(flushed, truth())], library).sets[0]
    assert sets[1] == alone


@pytest.mark.parametrize("times", [1, 10])
def test_one_configuration_says_little_of_others(times: int) -> None:
    """However often it was measured: its error bar is not the scatter of its repeats."""
    learnt = calibrate([measured_as([make_measurement(micro_batch_size=8)] * times, truth())], library)
    (found,) = learnt.sets
    assert [each.name for each in found.coefficients if each.fitted] == ["compute_factor"]
    (other,), _ = observe(measured_as([make_measurement(depth=8, width=4)], truth()).measurements, library)
    bar = corrected(other, learnt)
    assert bar is not None
    assert bar.high_s / bar.iteration_s > 1.15


def test_times_in_another_unit_are_not_learnt(made_up: Measurements) -> None:
    """Tokens a second read as samples a second: left out, or refused where there is nothing else."""
    first, *others = made_up.measurements
    assert first.iteration_s is not None
    wrong = first.model_copy(update={"iteration_s": first.iteration_s / 1_000})
    told = calibrate([made_up.model_copy(update={"measurements": (wrong, *others[:3])})], library)
    assert told.sets[0].measurements == 3
    assert len(told.skipped) == 1
    assert "left out" in told.skipped[0]
    with pytest.raises(CalibrationError, match="is it in seconds, or its rate in samples"):
        calibrate([made_up.model_copy(update={"measurements": (wrong,)})], library)


def test_measurements_without_a_time_are_refused() -> None:
    """Saying what is missing."""
    row = make_measurement().model_copy(update={"iteration_s": None, "status": "out_of_memory"})
    with pytest.raises(CalibrationError, match="iteration_s or throughput_samples_per_s"):
        calibrate([Measurements(source="made up", measurements=(row,))], library)


def test_a_plan_with_a_calibration_has_its_times_its_error_bars_and_its_hash(learnt: Calibration) -> None:
    """Only what was simulated has a bar."""
    request = make_request(model="bert-48", cluster="piz-daint", devices=32, mini_batch_size=512)
    plan = answer(request, library, calibration=learnt)
    assert plan.provenance.hashes["calibration"] == learnt.fingerprint()
    assert plan.chosen is not None
    bar = plan.chosen.predicted.error_bar
    assert bar is not None
    assert bar.low_s < plan.chosen.predicted.iteration_s < bar.high_s
    assert bar.coverage == learnt.level
    cluster = with_values(library.load_cluster("piz-daint"), truth())
    inline = {"document": cluster.model_dump(mode="json", exclude_none=True)}
    expected = answer(make_request(model="bert-48", cluster=inline, devices=32, mini_batch_size=512), library)
    assert expected.chosen is not None
    assert plan.chosen.predicted.iteration_s == pytest.approx(expected.chosen.predicted.iteration_s, rel=0.01)
    for candidate in plan.candidates:
        assert (candidate.predicted.error_bar is not None) == candidate.predicted.simulated


def test_a_plan_without_a_calibration_has_neither() -> None:
    """As before there was such a thing."""
    plan = answer(make_request(), library)
    assert "calibration" not in plan.provenance.hashes
    assert plan.chosen is not None
    assert plan.chosen.predicted.error_bar is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda known: known[:3], "lacks collective_factor"),
        (lambda known: (*known[:7], known[0]), "lacks stopped_collective_factor"),
        (
            lambda known: (*known[:7], known[7].model_copy(update={"name": "ring_step_s"})),
            "not fitted any more",
        ),
    ],
)
def test_a_calibration_with_other_coefficients_is_refused(
    learnt: Calibration, change: Callable[[tuple[Coefficient, ...]], tuple[Coefficient, ...]], told: str
) -> None:
    """Of another release, or tampered with: which ones, and what to do."""
    found = learnt.sets[0]
    changed = found.model_copy(update={"coefficients": change(found.coefficients)})
    with pytest.raises(CalibrationError, match=told):
        answer(
            make_request(model="bert-48", cluster="piz-daint", devices=32, mini_batch_size=512),
            library,
            calibration=learnt.model_copy(update={"sets": (changed,)}),
        )


def test_an_error_bar_that_says_nothing_is_still_a_number(learnt: Calibration) -> None:
    """However wide a calibration that was tampered with makes it."""
    wide = learnt.sets[0].model_copy(update={"reach": 1e9})
    (row,) = observe([make_measurement()], library)[0]
    bar = corrected(row, learnt.model_copy(update={"sets": (wide,)}))
    assert bar is not None
    assert 0 < bar.low_s < bar.iteration_s < bar.high_s < float("inf")


def test_a_calibration_of_another_cluster_is_refused(learnt: Calibration) -> None:
    """Naming the cluster it was made on."""
    with pytest.raises(CalibrationError, match="made on piz-daint"):
        answer(make_request(), library, calibration=learnt)


def changed(calibration: Calibration, **changes: Any) -> Calibration:
    """With these of its first set."""
    first = calibration.sets[0].model_copy(update=changes)
    return calibration.model_copy(update={"sets": (first,)})


def test_a_calibration_of_another_model_is_refused(learnt: Calibration) -> None:
    """Naming the model it was made for."""
    other = changed(learnt, model="gpt2-64")
    with pytest.raises(CalibrationError, match="made for gpt2-64 on piz-daint, and says nothing of tiny-gpt"):
        answer(make_request(cluster="piz-daint", precision="float32"), library, calibration=other)


def test_coefficients_that_no_software_explains_are_told(learnt: Calibration) -> None:
    """Layers that take no time, or a message of years."""
    values = {"compute_factor": 0.0, "message_latency_s": 1e9}
    coefficients = tuple(
        each.model_copy(update={"value": values.get(each.name, each.value)})
        for each in learnt.sets[0].coefficients
    )
    request = make_request(cluster="piz-daint", precision="float32")
    for calibration, told in ((learnt, 0), (changed(learnt, coefficients=coefficients), 2)):
        notes = answer(request, library, calibration=calibration).provenance.notes
        assert sum("is it as it was fitted" in note for note in notes) == told
