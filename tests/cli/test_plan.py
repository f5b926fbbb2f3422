"""Does `chimera plan` answer, in JSON, in flags and to people?"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import BERT, Shell
from tests.conftest import ROOT

LLAMA = ROOT / "examples" / "llama-3-8b" / "config.json"
ON_H100 = (
    "--cluster",
    "dgx-h100",
    "--devices",
    "64",
    "--mini-batch-size",
    "512",
    "--sequence-length",
    "8192",
)


def plan(chimera: Shell, *arguments: str | Path) -> dict[str, Any]:
    """The JSON document of a plan that must be found."""
    result = chimera("plan", *arguments, "--json")
    assert result.code == 0, result.err
    document: dict[str, Any] = json.loads(result.out)
    return document


def test_bert_48_is_planned_as_in_the_paper(chimera: Shell) -> None:
    """W=8, D=4, B=8 without recomputation; the part after the plan's keys is search_s alone."""
    document = plan(chimera, *BERT, "--schedules", "chimera", "--search", "greedy")
    chosen = document["chosen"]
    found = [chosen[name] for name in ("schedule", "width", "depth", "micro_batch_size", "recompute")]
    assert found == ["chimera", 8, 4, 8, "none"]
    assert document["search_s"] > 0
    assert sum(chosen["stage_layers"]) == 48
    assert sum(chosen["predicted"]["breakdown"].values()) == pytest.approx(chosen["predicted"]["iteration_s"])


def test_the_same_question_gives_the_same_document_but_for_search_s(chimera: Shell) -> None:
    """A plan holds no clock."""
    first, second = (plan(chimera, *BERT) for _ in range(2))
    assert first.pop("search_s") != second.pop("search_s")
    assert first == second


def test_a_config_a_folder_and_other_names_of_options_are_the_same_question(chimera: Shell) -> None:
    """--global-batch-size is --mini-batch-size, and a folder means the config.json in it."""
    one = plan(chimera, "--model", LLAMA, *ON_H100)
    renamed = [option.replace("--mini-batch-size", "--global-batch-size") for option in ON_H100]
    other = plan(chimera, "--model", LLAMA.parent, *renamed)
    assert one | {"search_s": 0} == other | {"search_s": 0}


def test_a_config_in_a_file_is_the_same_question_as_inline(chimera: Shell) -> None:
    """What the command answers to a path, the library answers to the parsed file."""
    from profiles import library
    from tuner.planning import answer
    from tuner.request import read_request

    model = {"config": json.loads(LLAMA.read_text()), "name": LLAMA.parent.name}
    inline = {"model": model, "cluster": "dgx-h100", "devices": 64}
    wanted = answer(read_request(inline | {"mini_batch_size": 512, "sequence_length": 8192}), library)
    document = plan(chimera, "--model", LLAMA, *ON_H100)
    del document["search_s"]
    assert document == wanted.model_dump(mode="json")


def test_a_profile_and_a_cluster_document_are_read(chimera: Shell, tmp_path: Path) -> None:
    """What `chimera profile` writes can be planned, on a cluster of the user's own."""
    profile = tmp_path / "profile.json"
    written = chimera(
        "profile", "--model", "tiny-gpt", "--on", "estimate", "--accelerator", "a100-40gb", "-o", profile
    )
    assert written.code == 0, written.err
    cluster = json.loads((ROOT / "profiles" / "clusters" / "dgx-a100.json").read_text())
    cluster["node"]["accelerator"] = "a100-40gb"
    own = tmp_path / "cluster.json"
    own.write_text(json.dumps(cluster | {"name": "ours"}))
    document = plan(
        chimera, "--model", profile, "--cluster", own, "--devices", "4", "--mini-batch-size", "32"
    )
    assert document["cluster"]["name"] == "ours"
    assert document["provenance"]["timings"] == "estimated"


def test_a_preset_wins_over_a_folder_of_its_name(
    chimera: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a name means does not depend on where one stands."""
    (tmp_path / "bert-48").mkdir()
    monkeypatch.chdir(tmp_path)
    assert plan(chimera, *BERT)["model"]["name"] == "bert-48"


def test_people_get_the_answer_the_candidates_and_what_to_do_next(chimera: Shell) -> None:
    """Both vocabularies, throughput, MFU, memory by part, provenance, and a next step at the end."""
    result = chimera("plan", *BERT)
    assert (result.code, result.err) == (0, "")
    for wanted in (
        "data-parallel x D=", "pipeline, micro-batch size B=", "samples/s", "tokens/s", "MFU", "all-reduce",
        "is the fullest with", "activations", "that fit:", "Numbers: timings published",
    ):  # fmt: skip
        assert wanted in result.out
    assert result.out.splitlines()[-1].startswith("Next: ")


def test_explain_summarises_the_rejected_by_reason(chimera: Shell) -> None:
    """Every kind of reason is counted, with examples in numbers, and every rank has its memory."""
    text = chimera("plan", *BERT, "--explain").out
    rejected = plan(chimera, *BERT)["rejected"]
    assert f"Rejected: {len(rejected):,}" in text
    assert "cannot fit in memory, such as" in text
    assert "GB of 17.1 GB" in text
    assert "Memory of the ranks" in text
    assert "SHA-256" in text


def test_why_shows_the_difference_by_part(chimera: Shell) -> None:
    """The best candidate at that depth, part by part against the choice."""
    text = chimera("plan", *BERT, "--why", "depth=16").out
    assert "Why not depth=16?" in text
    assert "all-reduce" in text.partition("Why not")[2]


def test_runs_on_tells_what_the_target_costs(chimera: Shell) -> None:
    """Only what Megatron-LM runs, and the loss against the best."""
    document = plan(chimera, *BERT, "--runs-on", "megatron")
    assert document["chosen"]["schedule"] in {"dapple", "interleaved"}
    assert document["target_cost"] > 0
    assert "runs on     megatron" in chimera("plan", *BERT, "--runs-on", "megatron").out


def test_exports_are_all_that_is_printed(chimera: Shell) -> None:
    """`eval "$(chimera plan --export env)"` reads nothing else."""
    result = chimera("plan", *BERT, "--export", "env")
    assert result.code == 0
    assert all(line.startswith("export CHIMERA_") for line in result.out.splitlines())
    flags = chimera("plan", *BERT, "--runs-on", "megatron", "--export", "megatron").out
    assert "--pipeline-model-parallel-size" in flags


def test_an_export_with_json_stays_one_document(chimera: Shell) -> None:
    """The export is a key of it."""
    document = plan(chimera, *BERT, "--export", "env")
    assert "export CHIMERA_WIDTH=" in document["export"]["text"]


def test_nothing_fits_is_an_answer_with_the_smallest_change(chimera: Shell) -> None:
    """Exit code 1, the reasons, the change and its memory by part; in JSON `chosen` is null."""
    pinned = ("--model", LLAMA, *ON_H100, "--depth", "1")
    told = chimera("plan", *pinned)
    assert told.code == 1
    assert "Nothing fits" in told.out
    assert "The smallest change that fits: " in told.out
    assert "optimizer_sharding=replicas" in told.out
    document = json.loads(chimera("plan", *pinned, "--json").out)
    assert document["chosen"] is None
    assert document["smallest_change"]["memory"]["total_bytes"] < document["cluster"]["memory_bytes"]


def test_nothing_is_exported_when_nothing_fits(chimera: Shell) -> None:
    """A script that evaluates stdout gets nothing, the person gets the reason."""
    result = chimera("plan", "--model", LLAMA, *ON_H100, "--depth", "1", "--export", "env")
    assert (result.code, result.out) == (1, "")
    assert "Nothing fits" in result.err


def test_a_report_is_a_page_that_stands_alone(chimera: Shell, tmp_path: Path) -> None:
    """One file, nothing loaded from elsewhere, told on stderr so that --json stays alone."""
    path = tmp_path / "report.html"
    result = chimera("plan", *BERT, "--json", "--report", path)
    assert result.code == 0, result.err
    assert json.loads(result.out)["chosen"]
    assert str(path) in result.err
    page = path.read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert 'src="http' not in page
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize("name", ["missing/report.html", "."])
def test_a_report_that_cannot_be_written_is_bad_input(chimera: Shell, tmp_path: Path, name: str) -> None:
    """Nothing is left half-written, and stdout holds no answer that might be taken for success."""
    result = chimera("plan", *BERT, "--report", tmp_path / name)
    assert (result.code, result.out) == (2, "")
    assert "cannot write" in result.err
    assert list(tmp_path.iterdir()) == []
