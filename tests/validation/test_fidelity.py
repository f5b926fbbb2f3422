"""Do calibrated predictions come as near to published measurements as the README says?"""

import random
import statistics

import pytest

from profiles import library
from profiles.measurement import Measurements
from tests.tuner.factories import make_request
from tuner.calibration import calibrate
from tuner.cross_validation import (
    coverage,
    cross_validate,
    mean_error,
    predict_rest,
    regret_of,
    without_schedule,
)
from tuner.observation import observe
from tuner.planning import answer
from tuner.robust_fit import Lines
from tuner.schedules import SYNCHRONOUS
from tuner.score import Score, score

PAPER, A100 = "chimera-sc21", "vtrain-a100"


def of_model(name: str, model: str) -> Measurements:
    """A shipped document with the rows of one model."""
    document = library.load_measurements(name)
    kept = tuple(row for row in document.measurements if row.model == model)
    return document.model_copy(update={"measurements": kept})


def rows_of(name: str, model: str | None = None) -> list[Lines]:
    """The rows of a shipped document with a time, of schedules with a flush."""
    found, _ = observe(library.load_measurements(name).measurements, library)
    return [Lines(each) for each in found if each.predictor.synchronous and model in {None, each.model}]


def drawn(rows: list[Lines], seed: int) -> list[int]:
    """32 of the rows."""
    return random.Random(seed).sample(range(len(rows)), 32)


@pytest.fixture(scope="module")
def bert() -> Score:
    """The 68 rows of bert-48, calibrated on themselves."""
    document = of_model(PAPER, "bert-48")
    return score(document, library, calibration=calibrate([document], library), schedules=SYNCHRONOUS)


def test_one_calibration_describes_68_rows_of_four_schedules(bert: Score) -> None:
    """With eight coefficients, none of one schedule."""
    assert bert.count == 68
    assert bert.mape is not None
    assert bert.mape < 0.05
    assert bert.bias == pytest.approx(0.0, abs=0.02)


def test_every_row_of_chimera_is_near(bert: Score) -> None:
    """Within 5 %, though they are four of 68."""
    errors = [row.error for row in bert.rows if row.configuration["schedule"] == "chimera"]
    assert len(errors) == 4
    assert max(map(abs, errors)) < 0.05


def test_gpt2_on_512_nodes_is_described_too() -> None:
    """Its layers were never timed: from the data sheet."""
    document = of_model(PAPER, "gpt2-64")
    found = score(document, library, calibration=calibrate([document], library), schedules=SYNCHRONOUS)
    assert found.count == 21
    assert found.mape is not None
    assert found.mape < 0.08


def test_the_data_sheet_alone_predicts_the_a100_rows_within_a_quarter() -> None:
    """Nothing was fitted on that accelerator, and picking by it costs little."""
    found = score(library.load_measurements(A100), library)
    assert found.count == 240
    assert found.mape is not None
    assert found.mape < 0.15
    assert found.mean_regret is not None
    assert found.mean_regret < 0.025


def test_32_rows_predict_the_other_a100_rows() -> None:
    """Of two draws; a single one has few rows for error bars to be judged by."""
    rows = rows_of(A100)
    found = [predict_rest(rows, drawn(rows, seed)) for seed in range(2)]
    assert [len(rest) for rest in found] == [208, 208]
    assert max(map(mean_error, found)) < 0.045
    assert 0.8 <= statistics.mean(map(coverage, found)) <= 0.97
    assert max(map(regret_of, found)) < 0.005


LONG = pytest.mark.slow, pytest.mark.long


@pytest.mark.parametrize(
    "left_out", ["16 x 2048", pytest.param("24 x 1024", marks=LONG), pytest.param("12 x 1024", marks=LONG)]
)
def test_a_shape_is_predicted_from_the_other_two(left_out: str) -> None:
    """The wide one, too, from two of half its width, whose products and traffic grow differently."""
    rows = rows_of(A100)
    seen = [number for number, row in enumerate(rows) if left_out not in row.observation.model]
    found = predict_rest(rows, seen)
    assert len(found) == 80
    assert mean_error(found) < 0.045
    assert max(abs(each.error) for each in found) < 0.11


def test_the_paper_s_choice_stands_with_the_calibration() -> None:
    """W=8, D=4, B=8, with the measured 173.3 samples/s in its error bar."""
    calibration = calibrate([of_model(PAPER, "bert-48")], library)
    request = make_request(
        model="bert-48", cluster="piz-daint", devices=32, mini_batch_size=512, schedules="chimera"
    )
    chosen = answer(request, library, calibration=calibration).chosen
    assert chosen is not None
    assert (chosen.width, chosen.depth, chosen.micro_batch_size) == (8, 4, 8)
    bar = chosen.predicted.error_bar
    assert bar is not None
    assert bar.low_s < 512 / 173.3 < bar.high_s


@pytest.mark.slow
@pytest.mark.long
def test_a_schedule_is_predicted_from_the_others() -> None:
    """Each of the four in turn; none is far off, so no coefficient serves one of them alone."""
    errors = without_schedule(rows_of(PAPER, "bert-48"))
    assert statistics.mean(errors.values()) < 0.13
    assert max(errors.values()) < 0.17
    assert errors["chimera"] < 0.05


@pytest.mark.slow
@pytest.mark.long
def test_error_bars_hold_nine_of_ten_rows_that_were_not_seen() -> None:
    """Five folds of each model."""
    for model, error in (("bert-48", 0.06), ("gpt2-64", 0.15)):
        folds = cross_validate(rows_of(PAPER, model), lambda number, _: number % 5)
        assert 0.80 <= coverage(folds) <= 0.97
        assert mean_error(folds) < error


@pytest.mark.slow
@pytest.mark.long
def test_twenty_draws_of_32_rows_predict_the_others() -> None:
    """Mean error at most 4 %, nearly no regret, and error bars that hold on average."""
    rows = rows_of(A100)
    found = [predict_rest(rows, drawn(rows, seed)) for seed in range(20)]
    assert statistics.mean(map(mean_error, found)) <= 0.04
    assert statistics.mean(map(regret_of, found)) <= 0.005
    assert 0.80 <= statistics.mean(map(coverage, found)) <= 0.97
