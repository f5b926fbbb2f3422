"""Does `chimera tune` measure, plan, try, choose and keep what it measured?"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from cli.tune import exit_code_of
from cli.tuning import Tuned
from profiles import library
from profiles.measurement import Measurements
from tests.cli.command import Shell
from tests.contract.names import schema
from tests.tuner.factories import make_plan, make_request
from tests.tuner.studies import make_trial
from tuner.options import options_of
from tuner.tuning import tuning

TUNE = ("tune", "--model", "tiny-gpt", "--cluster", "local-cpu", "--devices", "2", "--mini-batch-size", "4")
NARROW = ("--schedules", "dapple,gpipe", "--recompute", "none", "--trials", "2")


@pytest.mark.slow
def test_a_tuning_measures_tries_chooses_and_goes_on(chimera: Shell, tmp_path: Path) -> None:
    """Layers, links and two trials are measured; asked again with its own files, it tries nothing more."""
    files = {name: tmp_path / name for name in ("kept.json", "page.html", "study.log", "p.json", "c.json")}
    written = ("-o", files["kept.json"], "--report", files["page.html"])
    written += ("--export-optuna", files["study.log"])
    saved = ("--save-profile", files["p.json"], "--save-cluster", files["c.json"])
    result = chimera(*TUNE, *NARROW, "--budget", "0.02", *written, *saved, "--json")
    assert result.code == 0, result.err
    told = json.loads(result.out)
    jsonschema.validate(told, schema("tuning"))
    _check_document(told)
    assert "Measuring the layers of tiny-gpt at B = 1, 2, 4 by 2 processes at once" in result.err
    assert "2/2 " in result.err
    kept = Measurements.from_json(files["kept.json"].read_bytes(), name="kept.json")
    assert sorted(row.iteration_s or 0 for row in kept.measurements) == sorted(
        trial["measured"] for trial in told["trials"]
    )
    page = files["page.html"].read_text(encoding="utf-8")
    assert "The measured iteration of" in page
    assert 'id="trials"' in page
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(files["study.log"])))
    assert len(optuna.load_study(study_name="chimera", storage=storage).trials) == 2

    score = json.loads(chimera("score", files["kept.json"], "--profile", files["p.json"], "--json").out)
    assert score["count"] == 2
    again = list(TUNE)
    again[again.index("local-cpu")] = str(files["c.json"])
    result = chimera(*again, *NARROW, "--profile", files["p.json"], "-o", files["kept.json"])
    assert result.code == 0, result.err
    assert "2 trials are in" in result.err
    assert "Run " in result.out
    assert "2 of 2 trials were started" in result.out


def _check_document(told: dict[str, Any]) -> None:
    """The choice is the fastest measured."""
    fastest = min(told["trials"], key=lambda trial: trial["measured"])
    assert fastest["configuration"] == told["winner"]
    assert fastest["configuration"].items() <= told["chosen"].items()
    assert {trial["status"] for trial in told["trials"]} <= {"ok", "noisy"}
    assert all(value is not None for value in told["model_error"].values())
    assert told["trials_saved"] == told["candidates_considered"] - 2
    assert told["provenance"]["timings"] == told["provenance"]["links"] == "measured"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gradient-precision", "same", "--precision", "bfloat16"), "--gradient-precision float32 alone"),
        (("--rank-order", "data_major"), "--rank-order pipe_major alone"),
        (("--attention", "eager"), "--attention flash"),
        (("--schedules", "none"), "unknown schedule 'none'"),
        (("--devices", "65"), "devices 65 exceed the 64 of cluster local-cpu"),
        (("--trials", "0"), "0 is not in the range"),
        (("-o", "/nowhere/kept.json"), "there is no folder '/nowhere'"),
        (("--profile", "tiny-gpt"), "is no profile document"),
        (("--width", "2", "--depth", "2"), "needs 4 devices"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_is_measured(
    chimera: Shell, words: tuple[str, ...], said: str
) -> None:
    """Exit code 2, with what to do."""
    result = chimera(*TUNE, *words)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert "Measuring" not in result.err


def test_an_accelerator_that_is_not_here_cannot_be_tuned_here(chimera: Shell) -> None:
    """Exit code 3: the question is sound."""
    result = chimera(*TUNE, "--cluster", "dgx-h100")
    assert result.code == 3
    assert "torch sees no CUDA device" in result.err


def test_a_file_that_holds_something_else_is_not_overwritten(chimera: Shell, tmp_path: Path) -> None:
    """Trials go into measurement documents alone."""
    path = tmp_path / "notes.json"
    path.write_text("{}", encoding="utf-8")
    profile = tmp_path / "profile.json"
    estimate = ("--on", "estimate", "--accelerator", "cpu", "-o", profile)
    assert chimera("profile", "--model", "tiny-gpt", *estimate).code == 0
    result = chimera(*TUNE, "--devices", "1", "--profile", profile, "-o", path)
    assert result.code == 2
    assert path.read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (("ok", "failed"), 0),
        (("noisy",), 0),
        (("out_of_memory", "out_of_memory"), 1),
        (("failed", "out_of_memory"), 3),
        (("timed_out",), 3),
    ],
)
def test_the_exit_code_says_whether_something_was_measured(statuses: tuple[str, ...], code: int) -> None:
    """1 where nothing fits, 3 where nothing could be measured."""
    options = options_of(make_request(), library)
    rows = [make_trial(option, status=status) for option, status in zip(options, statuses, strict=False)]

    assert exit_code_of(Tuned(tuning(make_plan(), options, rows))) == code
