"""Does `chimera profile` write what `chimera plan` reads?"""

import json
from pathlib import Path

import pytest

from profiles.timings import Profile
from tests.cli.command import Shell
from tests.conftest import ROOT

ASKED = ("profile", "--model", "tiny-gpt", "--on", "estimate", "--accelerator", "a100-40gb")


def test_the_profile_has_every_size_that_was_asked_for(chimera: Shell) -> None:
    """Sorted, once each, and marked as estimated."""
    result = chimera(*ASKED, "--micro-batch-sizes", "4,1,2,2", "--json")
    assert (result.code, result.err) == (0, "")
    profile = Profile.from_json(result.out)
    for timings in profile.timings.types:
        assert [point.micro_batch_size for point in timings.points] == [1, 2, 4]
        assert timings.provenance == "estimated"


def test_a_config_is_profiled_at_the_length_given(chimera: Shell, tmp_path: Path) -> None:
    """-o writes the document, and stdout stays for people."""
    path = tmp_path / "profile.json"
    config = ROOT / "examples" / "llama-3-8b"
    result = chimera(
        "profile", "--model", config, "--on", "estimate", "--accelerator", "h100-80gb",
        "--sequence-length", "4096", "--precision", "float16", "-o", path,
    )  # fmt: skip
    assert (result.code, result.out) == (0, "")
    profile = Profile.from_json(path.read_text())
    assert profile.description.sequence_length == 4096
    assert profile.timings.precision == "float16"
    assert profile.description.parameters == 8_030_261_248


def test_people_get_a_table_by_layer(chimera: Shell) -> None:
    """Times, parameters and bytes kept, and what to do next."""
    result = chimera(*ASKED)
    assert result.code == 0
    assert "embedding" in result.out
    assert result.out.splitlines()[-1].startswith("Next: ")


MEASURED = ("profile", "--on", "cpu", "--budget", "0", "--micro-batch-sizes", "1,2")


def test_a_measured_profile_is_planned_with(chimera: Shell, tmp_path: Path) -> None:
    """Times of this host, with where they were taken, and a plan that says that they are measured."""
    path = tmp_path / "profile.json"
    result = chimera(*MEASURED, "--model", "tiny-gpt", "-o", path)
    assert (result.code, result.out) == (0, "")
    taken = Profile.from_json(path.read_text())
    assert {entry.provenance for entry in taken.timings.types} == {"measured"}
    assert taken.timings.environment is not None
    assert taken.timings.environment.threads == 1
    planned = chimera(
        "plan",
        "--model",
        path,
        "--cluster",
        "local-cpu",
        "--devices",
        "2",
        "--mini-batch-size",
        "8",
        "--json",
    )
    assert planned.code == 0
    answer = json.loads(planned.out)
    assert answer["provenance"]["timings"] == "measured"


def test_a_measured_config_has_the_precision_that_help_tells(chimera: Shell, tmp_path: Path) -> None:
    """bfloat16, as an estimate of it and a plan have; another when asked for."""
    config = tmp_path / "config.json"
    sizes = {"n_embd": 32, "n_head": 2, "n_layer": 1, "vocab_size": 60, "n_positions": 8}
    config.write_text(json.dumps({"model_type": "gpt2", **sizes}))
    asked = (*MEASURED, "--model", config, "--sequence-length", "8", "--json")
    measured = [chimera(*asked), chimera(*asked, "--precision", "float32")]
    assert [result.code for result in measured] == [0, 0]
    taken = [Profile.from_json(result.out) for result in measured]
    assert [profile.timings.precision for profile in taken] == ["bfloat16", "float32"]
    assert "bfloat16" in chimera("profile", "--help").out


def test_several_processes_measure_at_once(chimera: Shell) -> None:
    """Every layer at every size, in one document that says so; those of a factory are not started twice."""
    result = chimera(*MEASURED, "--model", "tiny-gpt", "--processes", "2", "--json")
    assert result.code == 0, result.err
    timings = Profile.from_json(result.out).timings
    assert "2 processes at the same time" in timings.notes[0]
    assert {entry.type for entry in timings.types} == {"embedding", "block", "head", "loss"}
    assert all(entry.update_s is not None for entry in timings.types)
    assert [[each.micro_batch_size for each in entry.points] for entry in timings.types] == [[1, 2]] * 4
    assert timings.environment is not None
    assert timings.environment.threads == 1
    refused = chimera(*MEASURED, "--model", "own.py:Own", "--processes", "2")
    assert (refused.code, refused.out) == (2, "")
    assert "leave it out for a factory" in refused.err


def test_a_factory_is_profiled_too(chimera: Shell, tmp_path: Path) -> None:
    """Named by its file, with a table for people."""
    path = tmp_path / "own.py"
    path.write_text(
        "import torch\nfrom torch import nn\n\n"
        "class Own:\n"
        "    layers = [nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 3)]\n\n"
        "    def batch(self, samples, *, seed):\n"
        "        return torch.ones(samples, 4), torch.zeros(samples, dtype=torch.long)\n"
    )
    result = chimera(*MEASURED, "--model", f"{path}:Own")
    assert result.code == 0
    assert "layers.1" in result.out
    assert chimera(*MEASURED, "--model", f"{path}:Own", "--precision", "float32").code == 2
    missing = chimera(*MEASURED, "--model", f"{path}:Other")
    assert missing.code == 2
    assert "'Other' is not there" in missing.err


def test_a_device_that_is_not_there_cannot_be_measured(
    chimera: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The question is sound but has no answer here: exit code 3, and what to do instead."""
    monkeypatch.setattr("executor.measuring.environment.has_cuda", lambda: False)
    result = chimera("profile", "--model", "tiny-gpt", "--on", "cuda")
    assert (result.code, result.out) == (3, "")
    assert "--on estimate" in result.err


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--micro-batch-sizes", "0"), "whole numbers"),
        (("--micro-batch-sizes", "1,two"), "whole numbers"),
        (("--micro-batch-sizes", ""), "whole numbers"),
        (("--micro-batch-sizes", "1" * 40), "whole numbers"),
        (("--micro-batch-sizes", ",".join(map(str, range(1, 200)))), "more than 100"),
        (("--sequence-length", "-1"), "sequence length"),
        (("--sequence-length", "0"), "sequence length"),
        (("--sequence-length", "1" + "0" * 30), "sequence length"),
        (("--model", "tiny"), "tiny-gpt"),
        (("--model", "."), "config.json"),
        (("--accelerator", "a100"), "a100-40gb"),
        (("--output", "missing/profile.json"), "cannot write"),
    ],
)
def test_bad_input_is_refused(
    chimera: Shell, arguments: tuple[str, ...], wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, exit code 2."""
    monkeypatch.chdir(tmp_path)
    result = chimera(*ASKED, *arguments)
    assert (result.code, result.out) == (2, "")
    assert wanted in result.err


def test_an_estimate_needs_a_data_sheet(chimera: Shell) -> None:
    """The missing option is named, and how to see what it takes."""
    result = chimera("profile", "--model", "tiny-gpt", "--on", "estimate")
    assert result.code == 2
    assert "--accelerator" in result.err


def test_a_profile_is_not_profiled_again(chimera: Shell, tmp_path: Path) -> None:
    """It is refused as a model here, since it is one already."""
    path = tmp_path / "profile.json"
    assert chimera(*ASKED, "-o", path).code == 0
    assert chimera(*ASKED, "--model", path).code == 2
