"""Does `chimera worker` say what it lacks?"""

import json
from pathlib import Path

import pytest

from tests.cli.command import Shell, finish, start
from tests.tuner.test_client import JOB, Script, problem, script
from tuner.messages import JobKind

__all__ = ["script"]


def test_a_worker_without_a_key_says_how_to_make_one(chimera: Shell) -> None:
    """The example of --help needs a service and its key; without them it fails in one line."""
    result = chimera("worker", "--url", "http://127.0.0.1:8000", "--once")
    assert (result.code, result.out) == (2, "")
    assert "chimera key create" in result.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--pool", "a,,b"), "list of pools"),
        (("--pool", "a b"), "list of pools"),
        (("--pool", ""), "list of pools"),
        (("--poll", "31"), "--poll"),
        (("--url", "service:8000"), "address"),
        (("--accelerator", "h1000"), "h1000"),
        (("--devices", "8"), "--devices is for --launcher slurm or ray"),
        (("--partition", "gpu"), "--partition is for --launcher slurm, and this is local"),
    ],
)
def test_wrong_options_are_refused(
    chimera: Shell, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], told: str
) -> None:
    """With 2 and what is wrong."""
    monkeypatch.setenv("CHIMERA_API_KEY", "chimera_x")
    result = chimera("worker", *options)
    assert (result.code, result.out) == (2, "")
    assert told in result.err


def test_a_service_that_is_not_there_ends_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With 3, when its patience is at its end; the log is lines of JSON."""
    monkeypatch.setenv("CHIMERA_API_KEY", "chimera_x")
    monkeypatch.setenv("CHIMERA_URL", "http://127.0.0.1:9")
    result = finish(start("worker", "--patience", "0", "--json", cwd=tmp_path))
    assert (result.code, result.out) == (3, "")
    first, *_, last = result.err.splitlines()
    assert json.loads(first)["level"] == "info"
    assert "http://127.0.0.1:9 did not answer" in last


def test_an_outcome_is_not_lost_to_a_defect_of_the_service(
    tmp_path: Path, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What answers 500 once, to a claim or to the end of a job, is asked again; the worker does not end."""
    monkeypatch.setenv("CHIMERA_API_KEY", "chimera_x\n")
    payload = {"model": "tiny-gtp"}
    job = JOB.model_copy(update={"kind": JobKind.PROFILE_MODEL, "payload": payload, "heartbeat_s": 60.0})
    script.answers = [
        (200, {}, job.model_dump(mode="json")), problem(500, "defect"), (200, {}, {"status": "failed"})
    ]  # fmt: skip
    result = finish(start("worker", "--url", script.url, "--once", "--poll", "0", "--json", cwd=tmp_path))
    assert (result.code, json.loads(result.out)["jobs"]) == (0, {"failed": 1})
    first, second = [body for path, _, body in script.asked if path.endswith("/finish")]
    assert first == second
    assert "tiny-gpt" in first["outcome"]["message"]
