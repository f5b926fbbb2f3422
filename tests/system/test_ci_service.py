"""Does `chimera ci` keep baselines and verdicts in a service, and do without one that does not answer?"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from api.access import keys
from api.access.keys import Scope
from api.service import now
from tests.cli.command import CHIMERA, Shell
from tests.system.site import Site

EXAMPLE = Path(__file__).parents[2] / "examples" / "ci" / "github-service.yml"
CONFIG = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 4, "vocab_size": 800, "n_positions": 64}
MANIFEST = """
project = "team/repo"
baseline = "service"
fallback = "kept.json"

[[models]]
name = "team/ours"
model = "config.json"
sequence_length = 64
on = "estimate"
accelerator = "rtx-4090-24gb"
devices = 2
mini_batch_size = 8
"""


def keyed(site: Site, owner: str, scope: Scope = Scope.SUBMIT) -> dict[str, str]:
    """What a CI job has in its environment, with a key of that owner."""
    with site.database.writing() as session:
        _, key = keys.create_key(
            session, name="ci", owner=owner, scopes=[Scope.READ, scope], created_by="test", now=now()
        )
    return {"CHIMERA_URL": site.url, "CHIMERA_API_KEY": key, "GITHUB_SHA": "cafe" * 10}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with one model, whose baseline is in the service."""
    made = tmp_path / "repository"
    made.mkdir()
    (made / "chimera.toml").write_text(MANIFEST)
    change(made, vocabulary=800)
    return made


def change(folder: Path, *, vocabulary: int) -> None:
    """Give the model another vocabulary."""
    (folder / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": vocabulary}))


@dataclass
class Job:
    """A CI job in the repository."""

    chimera: Shell
    patch: pytest.MonkeyPatch

    def __call__(self, environment: dict[str, str], *options: str) -> tuple[int, dict[str, Any]]:
        """Exit code and answer of `chimera ci`."""
        for name, value in environment.items():
            self.patch.setenv(name, value)
        result = self.chimera("ci", "--json", "--patience", "30", *options)
        assert result.out, result.err
        return result.code, json.loads(result.out)


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> Job:
    """The command, in the repository's folder."""
    monkeypatch.chdir(folder)
    return Job(Shell(capsys), monkeypatch)


def test_a_baseline_is_accepted_in_the_service_and_compared_with(
    sqlite_site: Site, folder: Path, check: Job
) -> None:
    """With a key of scope submit; verdict, profile and plan are kept, and the summary leads to them."""
    sqlite_site.start_api()
    environment = keyed(sqlite_site, "team")
    assert check(environment)[1]["models"][0]["status"] == "new"
    code, answer = check(environment, "--accept")
    assert (code, answer["accepted"], answer["baseline"], answer["problems"]) == (0, True, "service", [])
    assert (folder / "kept.json").exists()
    change(folder, vocabulary=900)
    code, answer = check(environment, "--upload", "--summary", "out.md")
    assert (code, answer["models"][0]["status"]) == (1, "regressed")
    links = answer["models"][0]["links"]
    assert set(links) == {"report", "history", "profile"}
    assert f"[report](<{links['report']}>)" in (folder / "out.md").read_text()
    headers = {"Authorization": f"Bearer {sqlite_site.admin_key}"}
    found = httpx.get(f"{sqlite_site.url}/v1/checks", params={"model": "team/ours"}, headers=headers).json()
    newest, oldest = (each["document"] for each in found["items"])
    assert (newest["answer"]["status"], newest["revision"], newest["accepted"]) == (
        "regressed",
        "cafe" * 10,
        False,
    )
    assert (oldest["accepted"], oldest["project"]) == (True, "team/repo")
    assert [httpx.get(link, headers=headers).status_code for link in links.values()] == [200] * 3
    profile = f"{sqlite_site.url}/v1/profiles/{newest['answer']['profile_id']}"
    assert httpx.get(profile, headers=headers).status_code == 200
    assert check(keyed(sqlite_site, "others"))[1]["models"][0]["status"] == "new"


def test_a_service_that_does_not_answer_fails_nothing_unless_it_is_required(
    sqlite_site: Site, folder: Path, check: Job
) -> None:
    """No key, as for a fork; a key that may only read; nobody there: a file stands in, else it is told."""
    sqlite_site.start_api()
    environment = keyed(sqlite_site, "team")
    assert check(environment, "--accept")[0] == 0
    code, answer = check(environment | {"CHIMERA_API_KEY": ""}, "--upload")
    assert (code, answer["models"][0]["status"], answer["baseline"]) == (0, "ok", "kept.json")
    assert "fork" in answer["problems"][0]
    code, answer = check(keyed(sqlite_site, "team", Scope.READ), "--upload")
    assert (code, answer["models"][0]["status"], len(answer["problems"])) == (0, "ok", 1)
    assert "scope submit" in answer["problems"][0]
    sqlite_site.kill_api()
    (folder / "kept.json").unlink()
    at_once = ("--patience", "0")
    code, answer = check(environment, "--upload", *at_once)
    assert (code, answer["models"][0]["status"], len(answer["problems"])) == (0, "not_comparable", 1)
    assert check(environment, "--require-service", *at_once)[0] == 3
    code, answer = check(environment, "--accept", *at_once)
    assert (code, answer["accepted"]) == (3, False)
    assert not (folder / "kept.json").exists()


def test_the_example_of_a_workflow_with_a_service_runs(sqlite_site: Site, folder: Path) -> None:
    """Its own commands, as GitHub runs them: the main branch accepts, a pull request compares."""
    sqlite_site.start_api()
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "chimera"
    wrapper.write_text(f'#!/bin/sh\nexec {" ".join(CHIMERA)} "$@"\n')
    wrapper.chmod(0o755)
    environment = os.environ | keyed(sqlite_site, "team")
    environment |= {
        "PATH": f"{wrapper.parent}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(folder / "step.md"),
    }
    workflow = yaml.safe_load(EXAMPLE.read_text())
    scripts = [
        step["run"] for step in workflow["jobs"]["models"]["steps"] if "chimera ci" in step.get("run", "")
    ]
    assert len(scripts) == 2
    for script in scripts:
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment, check=True, timeout=120
        )
    assert "as in the baseline" in (folder / "step.md").read_text()
