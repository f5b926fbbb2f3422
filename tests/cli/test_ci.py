"""Does `chimera ci` check the models of a manifest, offline, and say with its exit code how they are?"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from cli.ci_origin import origin
from tests.cli.command import CHIMERA, Shell
from tuner.regressions.starter import STARTER

EXAMPLES = Path(__file__).parents[2] / "examples" / "ci"
CONFIG = {
    "model_type": "gpt2",
    "n_embd": 256,
    "n_head": 4,
    "n_layer": 4,
    "vocab_size": 8000,
    "n_positions": 512,
}
MANIFEST = """
[[models]]
name = "ours"
model = "config.json"
sequence_length = 256
on = "estimate"
accelerator = "rtx-4090-24gb"
devices = 4
mini_batch_size = 64
"""
FACTORY = """
import torch
from torch import nn

print("code of the user's may print")

class Model:
    def __init__(self):
        self.layers = [nn.Linear(16, WIDTH), nn.Linear(WIDTH, 4)]
        self.loss = nn.functional.mse_loss

    def batch(self, samples, *, seed):
        return torch.randn(samples, 16), torch.randn(samples, 4)
"""
MEASURED = """
[[models]]
name = "code"
model = "model.py:Model"
on = "cpu"
cluster = "local-cpu"
devices = 2
mini_batch_size = 8
micro_batch_sizes = [1]
budget = 0.01
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one model that is in the baseline."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chimera.toml").write_text(MANIFEST)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def answered(chimera: Shell, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Exit code and the first model of the answer."""
    result = chimera("ci", *arguments, "--json")
    assert result.out, result.err
    model: dict[str, Any] = json.loads(result.out)["models"][0]
    return result.code, model


def test_a_model_is_new_then_accepted_then_regresses(chimera: Shell, folder: Path) -> None:
    """A larger vocabulary fails the check, in JUnit and Markdown too, until it is accepted."""
    assert answered(chimera)[1]["status"] == "new"
    assert not (folder / "chimera-baseline.json").exists()
    assert chimera("ci", "--accept").code == 0
    assert answered(chimera) == (0, answered(chimera)[1])
    assert answered(chimera)[1]["changes"] == []
    (folder / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": 9000}))
    code, model = answered(chimera, "--junit", "out.xml", "--summary", "out.md")
    assert (code, model["status"]) == (1, "regressed")
    assert "vocabulary" in {change["kind"] for change in model["changes"]}
    assert ElementTree.parse(folder / "out.xml").find(".//failure") is not None
    assert "vocabulary size: 8,000 became 9,000" in (folder / "out.md").read_text()
    assert chimera("ci").code == 1
    assert chimera("ci", "--accept").code == 0
    assert answered(chimera)[1]["status"] == "ok"


def test_a_model_that_no_longer_fits_is_named(chimera: Shell, folder: Path) -> None:
    """On the devices that the manifest has; accepted, it is what later checks compare with."""
    assert chimera("ci", "--accept").code == 0
    (folder / "config.json").write_text(json.dumps(CONFIG | {"n_embd": 16384, "n_layer": 40}))
    code, model = answered(chimera)
    assert (code, model["status"]) == (1, "regressed")
    assert "no_longer_fits" in {change["kind"] for change in model["changes"]}
    assert chimera("ci", "--accept").code == 0
    assert answered(chimera)[1]["status"] == "ok"


def test_a_damaged_baseline_is_refused_and_can_be_accepted_anew(chimera: Shell, folder: Path) -> None:
    """As after a merge of two branches."""
    assert chimera("ci", "--accept").code == 0
    baseline = folder / "chimera-baseline.json"
    baseline.write_text(baseline.read_text().replace('"devices": "4"', '"devices": "5"'))
    assert max(len(line) for line in baseline.read_text().splitlines()) < 200
    result = chimera("ci")
    assert (result.code, result.out) == (2, "")
    assert "edited or merged by hand" in result.err
    assert chimera("ci", "--accept").code == 0
    assert chimera("ci").code == 0


def test_a_revision_is_the_baseline_on_this_machine(chimera: Shell, folder: Path) -> None:
    """The committed model is checked beside the changed one; the repository is only read."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | {"n_head": 8}))
    code, model = answered(chimera, "--against", "HEAD")
    assert (code, model["status"]) == (1, "regressed")
    assert "block, attention heads: 4 became 8" in {change["message"] for change in model["changes"]}
    assert sorted(path.name for path in folder.iterdir()) == [".git", "chimera.toml", "config.json"]
    for wrong in ("nowhere", "--help", ""):
        told = chimera("ci", f"--against={wrong}")
        assert (told.code, "fetch-depth: 0" in told.err) == (2, wrong == "nowhere")


def test_a_revision_is_read_as_a_checkout_would_be(
    chimera: Shell, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In hooks of git, which name its files from the root; with attributes and links of others than CI."""
    here = folder / "models"
    here.mkdir()
    for name in ("chimera.toml", "config.json"):
        (folder / name).rename(here / name)
    (folder / ".gitattributes").write_text("models export-ignore\n")
    (folder / "data").symlink_to("/somewhere/else")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(folder)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    monkeypatch.chdir(here)
    for name, value in {"GIT_DIR": ".git", "GIT_INDEX_FILE": ".git/index", "GIT_PREFIX": "models/"}.items():
        monkeypatch.setenv(name, value)
    code, model = answered(chimera, "--against", "HEAD")
    assert (code, model["status"]) == (0, "ok")
    assert origin(None, here).get("project") == folder.name
    monkeypatch.delenv("GIT_DIR")
    subprocess.run([*git, "checkout", "-q", "--detach"], check=True)
    assert "branch" not in origin(None, here)


def test_another_question_is_not_comparable(chimera: Shell, folder: Path) -> None:
    """Twice the devices are no regression of the model, and exit code 0."""
    assert chimera("ci", "--accept").code == 0
    (folder / "chimera.toml").write_text(MANIFEST.replace("devices = 4", "devices = 8"))
    code, model = answered(chimera)
    assert (code, model["status"]) == (0, "not_comparable")
    assert "devices 4 became 8" in model["changes"][0]["message"]


def test_an_unchanged_factory_is_not_measured_again(chimera: Shell, folder: Path) -> None:
    """Its files and software are the same; with a wider layer it is measured, and regresses."""
    (folder / "chimera.toml").write_text(MEASURED)
    (folder / "model.py").write_text("WIDTH = 512\n" + FACTORY)
    assert chimera("ci", "--accept").code == 0
    code, model = answered(chimera)
    assert (code, model["status"], model["profile"]) == (0, "ok", "baseline")
    (folder / "wide.py").write_text("WIDTH = 1024\n" + FACTORY)
    (folder / "chimera.toml").write_text(MEASURED.replace("model.py", "wide.py"))
    code, model = answered(chimera)
    assert (code, model["status"], model["profile"]) == (1, "regressed", "measured")
    assert "more_memory" in {change["kind"] for change in model["changes"]}


@pytest.mark.parametrize(
    "code", ["raise OSError('no data here')", "import sys; sys.exit(0)", "import nowhere"]
)
def test_a_broken_factory_is_not_measurable(chimera: Shell, folder: Path, code: str) -> None:
    """Exit code 3, beside a model that is checked all the same; the baseline keeps what it had."""
    (folder / "broken.py").write_text(f"def build():\n    {code}\n")
    (folder / "chimera.toml").write_text(MEASURED.replace("model.py:Model", "broken.py:build") + MANIFEST)
    result = chimera("ci", "--json", "--junit", "out.xml")
    assert result.code == 3
    broken, ours = json.loads(result.out)["models"]
    assert (broken["status"], ours["status"]) == ("not_measurable", "new")
    assert ElementTree.parse(folder / "out.xml").find(".//error") is not None


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ('"config.json"', '"nowhere.json"', "cannot read"),
        ('"config.json"', '"gpt9"', "no model preset"),
        ("sequence_length = 256", "", "sequence_length is required"),
        ("rtx-4090-24gb", "rtx", "rtx"),
        ("[[models]]", "[[modells]]", "models"),
    ],
)
def test_a_bad_manifest_is_exit_code_2(chimera: Shell, folder: Path, old: str, new: str, wanted: str) -> None:
    """Nothing on stdout, a sentence on stderr, nothing written."""
    (folder / "chimera.toml").write_text(MANIFEST.replace(old, new))
    result = chimera("ci", "--accept")
    assert (result.code, result.out) == (2, "")
    assert wanted in result.err
    assert not (folder / "chimera-baseline.json").exists()


def test_the_examples_of_ci_systems_run_offline(tmp_path: Path) -> None:
    """Their own commands, in a copy, without torch, network or service: GitHub's and GitLab's."""
    assert (EXAMPLES / "chimera.toml").read_text() == STARTER
    (tmp_path / "chimera.toml").write_text(STARTER)
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin" / "chimera"
    wrapper.write_text(f'#!/bin/sh\nexec {" ".join(CHIMERA)} "$@"\n')
    wrapper.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2])]),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "step.md"),
        "https_proxy": "http://127.0.0.1:9",
    }

    def run(script: str) -> None:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    run("chimera ci --accept")
    scripts = [*_github(), *_gitlab()]
    assert len(scripts) == 2
    for script in scripts:
        run(script)
    assert "as in the baseline" in (tmp_path / "step.md").read_text()
    assert ElementTree.parse(tmp_path / "chimera.xml").getroot().tag == "testsuites"


def _github() -> list[str]:
    workflow = yaml.safe_load((EXAMPLES / "github.yml").read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    return [step["run"] for step in steps if "pip install" not in step["run"]]


def _gitlab() -> list[str]:
    jobs = yaml.safe_load((EXAMPLES / "gitlab.yml").read_text())
    return [line for job in jobs.values() for line in job["script"]]


def test_estimates_load_no_torch(folder: Path) -> None:
    """A pull request is checked where none is installed."""
    code = "import sys; from cli.main import run; run(['ci']); sys.exit('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=folder, capture_output=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
