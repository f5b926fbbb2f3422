"""Does `chimera tune` measure, plan, try, choose and keep what it measured?"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import optuna
import pytest
from optuna.storages.journal import JournalFileBackend

from cli.tune import exit_code_of
from cli.tuning import Tuned
from profiles import library
from profiles.cluster import ClusterProfile
from profiles.measurement import Measurements
from profiles.timings import Profile
from tests.cli.command import Shell
from tests.contract.names import schema
from tests.tuner.factories import make_plan
from tests.tuner.studies import grid, make_trial
from tuner.plan import Plan
from tuner.tuning import tuning

TUNE = ("tune", "--model", "tiny-gpt", "--cluster", "local-cpu", "--devices", "2", "--mini-batch-size", "4")


@pytest.mark.slow
def test_a_tuning_tries_chooses_keeps_and_goes_on(chimera: Shell, tmp_path: Path) -> None:
    """With times that are given; asked again with its own measurements, it tries nothing more."""
    names = ("kept.json", "page.html", "study.log", "profile.json", "cluster.json")
    kept, page, journal, profile, cluster = (tmp_path / name for name in names)
    cluster.write_text(library.load_cluster("local-cpu").to_json(), encoding="utf-8")
    estimate = ("--on", "estimate", "--accelerator", "cpu", "-o", profile)
    assert chimera("profile", "--model", "tiny-gpt", *estimate).code == 0
    given = ("--cluster", cluster, "--profile", profile, "--schedules", "dapple", "--trials", "1")
    files = ("-o", kept, "--report", page, "--export-optuna", journal)
    result = chimera(*TUNE, *given, *files, "--json")
    assert result.code == 0, result.err
    assert "Measuring" not in result.err
    assert "1/1 dapple" in result.err
    told = json.loads(result.out)
    assert told.pop("search_s") > 0
    jsonschema.validate(told, schema("tuning"))
    check_choice(told)
    (row,) = Measurements.from_json(kept.read_bytes(), name="kept.json").measurements
    assert row.iteration_s == told["trials"][0]["measured"]
    assert "The measured iteration of" in page.read_text(encoding="utf-8")
    assert 'id="trials"' in page.read_text(encoding="utf-8")
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(journal)))
    assert len(optuna.load_study(study_name="chimera", storage=storage).trials) == 1
    assert (
        json.loads(chimera("score", kept, "--profile", profile, "--cluster", cluster, "--json").out)["count"]
        == 1
    )

    again = chimera(*TUNE, *given, "-o", kept)
    assert again.code == 0, again.err
    assert "1 trials are in" in again.err
    assert "1 of 1 trials were started" in again.out


@pytest.mark.long
def test_layers_and_links_are_measured_where_they_are_not_given(chimera: Shell, tmp_path: Path) -> None:
    """On this machine, by as many processes as there are ranks; both can be kept."""
    profile, cluster = tmp_path / "profile.json", tmp_path / "cluster.json"
    saved = ("--save-profile", profile, "--save-cluster", cluster, "--budget", "0.02", "--trials", "2")
    result = chimera(*TUNE, *saved, "--json")
    assert result.code == 0, result.err
    assert "Measuring the layers of tiny-gpt at B = 1, 2, 4 by 2 processes at once" in result.err
    assert "2/2 " in result.err
    told = json.loads(result.out)
    check_choice(told)
    assert told["provenance"]["timings"] == "measured"
    assert told["request"]["model"] == "tiny-gpt"
    assert Profile.from_json(profile.read_bytes(), name="profile").timings.accelerator == "cpu"
    assert ClusterProfile.from_json(cluster.read_bytes(), name="cluster").name == "local-cpu"


@pytest.mark.long
def test_trials_run_with_the_compression_that_pays(chimera: Shell, tmp_path: Path) -> None:
    """On links as slow as these topk does; the same without it does not take those trials for its own."""
    profile, cluster, kept = (tmp_path / name for name in ("profile.json", "cluster.json", "kept.json"))
    estimate = ("--on", "estimate", "--accelerator", "cpu", "-o", profile)
    assert chimera("profile", "--model", "tiny-gpt", *estimate).code == 0
    document = json.loads(library.load_cluster("local-cpu").to_json())
    for link in (document["link"], document["node"]["link"]):
        link["collective"]["bandwidth_bytes_per_s"] = 1e7
    cluster.write_text(json.dumps(document), encoding="utf-8")
    given = (
        "--cluster",
        cluster,
        "--profile",
        profile,
        "--width",
        "2",
        "--trials",
        "1",
        "-o",
        kept,
        "--json",
    )
    result = chimera(*TUNE, *given, "--compression", "topk,a2sgd:10")
    assert result.code == 0, result.err
    assert "Compression: with topk" in result.err
    told = json.loads(result.out)
    check_choice(told)
    assert told["chosen"]["compression"] == told["compression"]["chosen"] == "topk"
    assert told["request"]["compression"] == "topk,a2sgd:10"
    (row,) = Measurements.from_json(kept.read_bytes(), name="kept.json").measurements
    assert "gradients by topk" in (row.where or "")
    assert "0 trials are in" in chimera(*TUNE, *given).err


def check_choice(told: dict[str, Any]) -> None:
    """It is the fastest measured."""
    fastest = min(told["trials"], key=lambda trial: trial["measured"])
    assert fastest["configuration"] == told["winner"]
    assert fastest["configuration"].items() <= told["chosen"].items()
    assert {trial["status"] for trial in told["trials"]} <= {"ok", "noisy"}
    assert all(value is not None for value in told["model_error"].values())
    assert 0 < told["trials_saved"] <= told["candidates_considered"] - len(told["trials"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--gradient-precision", "same", "--precision", "bfloat16"), "--gradient-precision float32 alone"),
        (("--rank-order", "data_major"), "--rank-order pipe_major alone"),
        (("--attention", "eager"), "--attention flash"),
        (("--schedules", "none"), "unknown schedule 'none'"),
        (("--schedules", "1f1b"), "1f1b is dapple here"),
        (("--devices", "65"), "devices 65 exceed the 64 of cluster local-cpu"),
        (("--trials", "0"), "0 is not in the range"),
        (("-o", "/nowhere/kept.json"), "there is no folder '/nowhere'"),
        (("--profile", "tiny-gpt"), "is no profile document"),
        (("--width", "2", "--depth", "2"), "needs 4 devices"),
        (("--micro-batch-sizes", "1,8"), "no micro-batch is larger than the mini-batch of 4"),
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
    options = grid()
    rows = [make_trial(option, status=status) for option, status in zip(options, statuses, strict=False)]

    assert exit_code_of(Tuned(tuning(the_plan(), options, rows), 0.1)) == code


@cache
def the_plan() -> Plan:
    """One that has a choice."""
    return make_plan()
