"""Does `chimera score` compare, calibrate, save what it learnt, and write its page?"""

import json
from pathlib import Path
from typing import Any

import pytest

from profiles import library
from profiles.calibration import Calibration
from tests.cli.command import Shell
from tests.cli.test_bad_input import check_refused
from tests.tuner.measured import make_measurement, measured_as, truth


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a few measurements."""
    rows = [
        make_measurement(schedule=schedule, micro_batch_size=size)
        for schedule in ("gpipe", "dapple", "chimera")
        for size in (2, 4, 8)
    ]
    path = tmp_path_factory.mktemp("measured") / "measurements.json"
    path.write_text(measured_as(rows, truth()).to_json(), encoding="utf-8")
    return path


def test_a_shipped_document_is_scored_by_its_name(chimera: Shell) -> None:
    """The keys that are promised are there, and only the schedules that are asked for."""
    result = chimera("score", "chimera-sc21", "--schedules", "chimera", "--json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert found["count"] == len(found["rows"]) == 8
    assert {
        "mape", "median", "max", "bias", "error_bar_coverage", "memory_mape", "memory_bias", "oom_agreement",
        "mean_regret", "exact_best",
    } <= found.keys()  # fmt: skip
    assert {"model", "configuration", "predicted", "measured", "error"} <= found["rows"][0].keys()
    assert {row["configuration"]["schedule"] for row in found["rows"]} == {"chimera"}


def test_a_calibration_is_made_saved_and_used_by_a_plan(
    chimera: Shell, document: Path, tmp_path: Path
) -> None:
    """The plan names it by its content and has an error bar."""
    saved = tmp_path / "calibration.json"
    result = chimera("score", document, "--calibrate-on", document, "--save-calibration", saved)
    assert result.code == 0
    assert "predicted calibrated" in result.out
    assert "standard error" in result.out
    known = Calibration.from_json(saved.read_text(encoding="utf-8"))
    plan = chimera(
        "plan", "--model", "bert-48", "--cluster", "piz-daint", "--devices", "32", "--mini-batch-size", "512",
        "--calibration", saved, "--json",
    )  # fmt: skip
    answer = json.loads(plan.out)
    assert answer["provenance"]["hashes"]["calibration"] == known.fingerprint()
    assert answer["chosen"]["predicted"]["error_bar"]["coverage"] == known.level
    again = chimera("score", document, "--calibration", saved, "--json")
    assert json.loads(again.out)["calibration"] == known.fingerprint()


def test_the_page_is_one_file_that_asks_for_nothing(chimera: Shell, document: Path, tmp_path: Path) -> None:
    """No address of another place, no script, every row, and every row a point."""
    page = tmp_path / "score.html"
    assert chimera("score", document, "--report", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    assert text.count("<title>bert-48, ") == 9
    assert text.count("<tr><td>bert-48</td>") == 9


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no-such-file.json"], "cannot read"),
        (["chimera-sc21", "--schedules", "fastest"], "unknown schedule 'fastest'"),
        (["chimera-sc21", "--schedules", "1F1B"], "1F1B is dapple here"),
        (["chimera-sc21", "--save-calibration", "x.json"], "needs --calibrate-on"),
        (["chimera-sc21", "--calibrate-on", "chimera-sc21", "--calibration", "x.json"], "give one of them"),
    ],
)
def test_what_cannot_be_scored_is_said_in_a_line(chimera: Shell, words: list[str], told: str) -> None:
    """With exit code 2."""
    check_refused(chimera("score", *words), told)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "bert-49"}, "measurement 0: no model preset is called 'bert-49'"),
        ({"cluster": "piz-dant"}, "measurement 0: no cluster is called 'piz-dant'"),
        ({"configuration": {"schedule": "gpip"}}, "measurement 0: the schedule gpip"),
        ({"devices": 8}, "measurement 0: the measured configuration cannot be predicted: W·D = 32 ranks"),
        ({"configuration": {"mini_batch_size": 10**8}}, "forwards and backwards"),
        ({"configuration": {"mini_batch_size": 513}}, "does not divide by W·B = 16"),
        ({"configuration": {"depth": 64}, "devices": 256}, "deeper than the model's 48 blocks"),
        ({"iteration_s": -1.0}, "measurements.0.iteration_s"),
        ({"throughput_samples_per_s": 1.0}, "differ: leave one out"),
    ],
)
def test_a_measurement_of_which_nothing_can_be_said_is_named(
    chimera: Shell, tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    """Its number, what is wrong and the numbers, with exit code 2 where there is no other."""
    row = make_measurement().model_dump(mode="json", exclude_none=True)
    row |= change | {"configuration": row["configuration"] | change.get("configuration", {})}
    path = tmp_path / "measurements.json"
    path.write_text(json.dumps({"source": "made up", "measurements": [row]}), encoding="utf-8")
    check_refused(chimera("score", path), told)


def test_memory_is_told_row_by_row_and_decided_at_the_capacity_that_is_given(
    chimera: Shell, tmp_path: Path
) -> None:
    """Figure 9 of the Chimera paper: at 16.0 GB, where P100 run out, every decision is what happened."""
    shipped = library.load_measurements("chimera-sc21")
    rows = tuple(row for row in shipped.measurements if row.where == "fig. 9")
    path = tmp_path / "figure9.json"
    path.write_text(shipped.model_copy(update={"measurements": rows}).to_json(), encoding="utf-8")
    found = json.loads(chimera("score", path, "--json").out)
    assert (found["oom_agreement"], found["oom_count"], len(found["memory_rows"])) == (1.0, 18, 18)
    assert {row["capacity_bytes"] for row in found["memory_rows"]} == {16e9}
    assert found["memory_mape"] <= 0.06
    assert found["memory_bias"] >= 0
    assert found["memory_min_mape"] < 0.15
    told = chimera("score", path, "--capacity-gb", "17.07")
    assert told.code == 0
    assert "accepted, but ran out of memory: gpt2-32 pipedream W=2 D=16 B=1, predicted 16.19 GB" in told.out
    check_refused(chimera("score", path, "--capacity-gb", "nan"), "--capacity-gb")


def test_a_file_that_is_no_measurements_is_refused(chimera: Shell, tmp_path: Path) -> None:
    """Naming what is missing."""
    path = tmp_path / "other.json"
    path.write_text('{"schema_version": 1}', encoding="utf-8")
    check_refused(chimera("score", path), "source")
