"""Do the commands that ask a service get its answers, with the exit codes that were promised?"""

import json
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import app
from tests.cli.command import BERT, Shell
from tests.cli.test_help import read_examples
from tests.cli.test_serve import serving
from tests.tuner.test_client import Script, problem, script

__all__ = ["script"]
ASKING = ("submit", "watch", "report", "export")
TINY = ("--model", "tiny-gpt", "--cluster", "local-cpu", "--devices", "2", "--mini-batch-size", "8")
NO_FIT = ("--model", "llama-3-70b", "--cluster", "dgx-h100", "--devices", "4", "--mini-batch-size", "64")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service."""
    with serving(tmp_path_factory.mktemp("service"), "--port", "0", "--json") as (address, _):
        yield address


@pytest.fixture
def chimera(chimera: Shell, url: str, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """`chimera` that finds the service in its environment."""
    monkeypatch.setenv("CHIMERA_URL", url)
    return chimera


def submitted(chimera: Shell, *words: str) -> str:
    """The id of a new study."""
    return str(json.loads(chimera("submit", *words, "--json").out)["id"])


def test_the_examples_run_one_after_the_other(
    chimera: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the help of each shows can be pasted, once a service runs."""
    monkeypatch.chdir(tmp_path)
    for name in ASKING:
        for _, *arguments in read_examples(chimera(name, "--help").out):
            result = chimera(*arguments)
            assert (result.code, bool(result.out)) == (0, True), result.err
    assert "<!doctype html>" in (tmp_path / "report.html").read_text(encoding="utf-8").lower()
    assert {*ASKING, "cancel"} <= set(app.commands)


def test_a_study_is_told_as_a_plan_is(chimera: Shell) -> None:
    """The same answer as `chimera plan` gives, and where its report is."""
    told = chimera("submit", *BERT, "--name", "night").out
    planned = chimera("plan", *BERT).out
    assert planned.split("Searched")[0] in told
    assert "Report: http" in told


def test_exports_are_those_of_plan(chimera: Shell) -> None:
    """Byte for byte, and nothing else on stdout; --json holds the text under the names of plan."""
    planned = chimera("plan", *BERT, "--export", "slurm").out
    assert chimera("submit", *BERT, "--export", "slurm").out == planned
    assert chimera("export", "latest", "slurm").out == planned
    document = json.loads(chimera("watch", "latest", "--export", "slurm", "--json").out)
    assert document["status"] == "done"
    assert document["export"] == {"format": "slurm", "media_type": "text/plain", "text": planned}


def test_that_nothing_fits_is_exit_code_1(chimera: Shell) -> None:
    """Why is on stderr where launch flags were asked for, so that a script never runs it."""
    result = chimera("submit", *NO_FIT, "--export", "env")
    assert (result.code, result.out) == (1, "")
    assert "Nothing fits" in result.err
    assert chimera("export", "latest", "env").code == 1
    assert chimera("submit", *NO_FIT, "--json").code == 1


def test_one_key_makes_one_study(chimera: Shell) -> None:
    """All nodes of a job get the same."""
    assert len({submitted(chimera, *TINY, "--idempotency-key", "job 7") for _ in range(3)}) == 1
    changed = chimera("submit", *TINY, "--margin", "0.1", "--idempotency-key", "job 7")
    assert (changed.code, changed.out) == (2, "")


def test_files_travel_in_the_request(chimera: Shell, tmp_path: Path) -> None:
    """A config.json, a cluster and a profile of this host are sent; the service opens no path."""
    profile = tmp_path / "profile.json"
    sizes = ("--micro-batch-sizes", "1,2,4,8", "-o", profile)
    assert (
        chimera("profile", "--model", "tiny-gpt", "--on", "estimate", "--accelerator", "cpu", *sizes).code
        == 0
    )
    asked = ("--model", str(profile), *TINY[2:])
    assert json.loads(chimera("submit", *asked, "--json").out)["plan"]["chosen"]
    llama = str(Path(__file__).parents[2] / "examples" / "llama-3-8b")
    words = ("--model", llama, "--cluster", "dgx-h100", "--devices", "64", "--mini-batch-size", "512")
    assert chimera("submit", *words, "--sequence-length", "8192", "--json").code == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("watch", "nowhere"), 2, "no study"),
        (("export", "nowhere", "env"), 2, "no study"),
        (("cancel", "latest"), 1, "done"),
        (("submit", *TINY, "--devices", "0"), 2, "devices"),
        (("submit", *TINY, "--pool", "gpu"), 2, "--trials"),
        (("submit", *TINY, "--idempotency-key", "\n"), 2, "one line"),
        (("watch", "latest", "--url", "ftp://x"), 2, "not the address"),
        (("report", "latest", "-o", "/nowhere/report.html"), 2, "cannot write"),
    ],
)
def test_refusals_have_the_codes_that_scripts_rely_on(
    chimera: Shell, words: tuple[str, ...], code: int, said: str
) -> None:
    """2 for what is wrong, 1 for an answer that is negative; one line on stderr."""
    submitted(chimera, *TINY)
    result = chimera(*words)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


def test_a_service_that_is_not_there_is_exit_code_3(chimera: Shell) -> None:
    """After the patience that was asked for."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"http://127.0.0.1:{closed.getsockname()[1]}"
    result = chimera("submit", *TINY, "--export", "env", "--url", address, "--patience", "0.2")
    assert (result.code, result.out) == (3, "")
    assert f"{address} did not answer" in result.err


def test_an_answer_that_does_not_come_in_time_is_exit_code_3(chimera: Shell, script: Script) -> None:
    """What it waits for is told; without --wait a study that goes on is no failure."""
    waiting = {"id": "0" * 26, "status": "measuring", "waiting_for": "a worker of pool gpu", "plan": None}
    script.answers = [(202, {}, waiting)] * 10
    result = chimera("submit", *TINY, "--url", script.url, "--wait", "0.1", "--export", "env")
    assert (result.code, result.out) == (3, "")
    assert "waits for a worker of pool gpu" in result.err
    result = chimera("submit", *TINY, "--url", script.url)
    assert result.code == 0
    assert f"chimera watch {'0' * 26}" in result.out


def test_a_lost_answer_is_asked_for_again_under_the_same_key(chimera: Shell, script: Script) -> None:
    """A 503 and a connection that was cut are repeated, and no second study is made."""
    done = {"id": "0" * 26, "status": "failed", "error": "the worker is lost", "plan": None}
    script.answers = ["hang up", problem(503, "unavailable"), (201, {}, done)]
    result = chimera("submit", *TINY, "--url", script.url, "--wait", "1")
    assert result.code == 3
    assert "the worker is lost" in result.out
    keys = [headers["Idempotency-Key"] for _, headers, _ in script.asked]
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_the_key_goes_along_and_is_not_shown(
    chimera: Shell, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal of the key is bad input, in the service's words, and with where the command takes it from."""
    monkeypatch.setenv("CHIMERA_API_KEY", "correct-horse")
    script.answers = [problem(401, "unauthorized")]
    result = chimera("export", "0" * 26, "env", "--url", script.url)
    where = "commands take the key from CHIMERA_API_KEY"
    assert (result.code, result.err) == (2, f"error: about unauthorized; {where}\n")
    assert script.asked[0][1]["Authorization"] == "Bearer correct-horse"


def test_a_proxy_of_the_environment_is_used(
    chimera: Shell, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For what is not this host; a service here is asked directly."""
    monkeypatch.setenv("HTTP_PROXY", script.url)
    monkeypatch.setenv("http_proxy", script.url)
    script.answers = [(200, {"Content-Type": "text/plain"}, b"export CHIMERA_WIDTH=8\n")]
    result = chimera("export", "0" * 26, "env", "--url", "http://chimera.invalid:8000")
    assert (result.code, result.out) == (0, "export CHIMERA_WIDTH=8\n")
    assert script.asked[0][0] == f"http://chimera.invalid:8000/v1/studies/{'0' * 26}/export/env"
    assert chimera("watch", "latest").code in {0, 1}


def test_what_is_no_service_is_told_from_one(chimera: Shell, script: Script) -> None:
    """A page of something else is no answer."""
    script.answers = [(200, {}, b"<html>")]
    result = chimera("watch", "0" * 26, "--url", script.url)
    assert result.code == 3
    assert "not this service" in result.err


def test_examples_are_shell_lines() -> None:
    """The help of each command that asks ends with one."""
    assert all(shlex.split(app.commands[name].epilog or "")[-1] for name in ASKING)
