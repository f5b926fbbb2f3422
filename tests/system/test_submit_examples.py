"""Does a job start whatever its service does, with the settings that were chosen or else with its own?"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from tests.cli.test_serve import serving
from tests.tuner.test_client import Script, problem, script

__all__ = ["script"]
EXAMPLES = Path(__file__).parents[2] / "examples" / "submit"
QUESTION = {"CHIMERA_MODEL": "tiny-gpt", "CHIMERA_CLUSTER": "local-cpu", "CHIMERA_MINI_BATCH_SIZE": "8"}
QUESTION |= {"CHIMERA_DEVICES": "2", "CHIMERA_PATIENCE": "60", "SLURM_JOB_ID": "7"}
SHELLS = ["sh", "bash"]

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service."""
    with serving(tmp_path_factory.mktemp("service"), "--port", "0", "--json") as (address, _):
        yield address


def run(name: str, shell: str = "sh", *, path: str = os.defpath, **environment: str) -> tuple[str, str]:
    """What an example prints on stdout and stderr; it must end well."""
    done = subprocess.run(
        [shell, EXAMPLES / name],
        env={"PATH": path, **QUESTION, **environment},
        cwd=EXAMPLES.parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("shell", SHELLS)
def test_a_live_service_gives_lines_that_a_shell_evaluates(shell: str, url: str) -> None:
    """The env export, and on stderr which study it is of; asked again, the same study."""
    asked = [run("ask.sh", shell, CHIMERA_URL=url + "/") for _ in range(2)]
    assert asked[0] == asked[1]
    assert "export CHIMERA_WIDTH=" in asked[0][0]
    assert all(line.startswith("export CHIMERA_") for line in asked[0][0].splitlines())
    assert f"as chosen by {url}/studies/" in asked[0][1]


def test_a_whole_request_can_be_given(url: str) -> None:
    """For the options that have no variable of their own."""
    request = '{"model": "tiny-gpt", "cluster": "local-cpu", "devices": 2, "mini_batch_size": 8, "depth": 1}'
    settings, _ = run("ask.sh", CHIMERA_URL=url, CHIMERA_REQUEST=request, SLURM_JOB_ID="8")
    assert "export CHIMERA_DEPTH=1\n" in settings


def refused(script: Script) -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return f"http://127.0.0.1:{closed.getsockname()[1]}"


def slow() -> Iterator[str]:
    """An address where connections are taken and nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_job_keeps_its_settings_when_nobody_answers(shell: str, script: Script) -> None:
    """Dead, silent, busy, or something else than the service: nothing on stdout, one line that says why."""
    silent = next(listening := slow())
    script.answers = [problem(503, "unavailable")] * 4 + [(200, {}, b"<html>a login page</html>")]
    asked = [(refused(script), "60"), (silent, "1"), *[(script.url, "60")] * 2]
    answers = [
        run("ask.sh", shell, CHIMERA_URL=address, CHIMERA_PATIENCE=patience) for address, patience in asked
    ]
    listening.close()
    whys = ["Failed to connect", "timed out", "about unavailable", "is not the service"]
    for (settings, said), why in zip(answers, whys, strict=True):
        assert settings == ""
        assert why in said
        assert said.count("\n") == 1
        assert said.endswith("the job keeps its own settings\n")
    assert len({headers["Idempotency-Key"] for _, headers, _ in script.asked}) == 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"CHIMERA_MODEL": "llama-3-70b", "CHIMERA_CLUSTER": "dgx-h100"}, "nothing fits on 2 x h100-80gb"),
        ({"CHIMERA_MODEL": "no-such-model"}, "no-such-model"),
        ({"CHIMERA_MODEL": 'x","y":"'}, "CHIMERA_MODEL is not a plain word"),
        ({"CHIMERA_MINI_BATCH_SIZE": ""}, "CHIMERA_MINI_BATCH_SIZE is not a whole number"),
        ({"CHIMERA_API_KEY": "wrong"}, "refuses the question"),
        ({"CHIMERA_API_KEY": 'a"\nurl = "http://x'}, "CHIMERA_API_KEY is not a key"),
        ({"CHIMERA_REQUEST": "{"}, "refuses the question"),
    ],
)
def test_a_job_keeps_its_settings_when_there_is_no_answer(
    url: str, changes: dict[str, str], why: str
) -> None:
    """Nothing fits, or the question is wrong: that is told in the service's words."""
    settings, said = run("ask.sh", CHIMERA_URL=url, **changes, SLURM_JOB_ID=f"{why} {len(str(changes))}")
    assert settings == ""
    assert why in said


def test_a_job_that_names_no_model_is_left_alone() -> None:
    """A prolog sees the jobs of everybody."""
    assert run("task_prolog.sh", CHIMERA_MODEL="") == ("", "")


def test_a_service_that_is_started_again_is_waited_for(url: str) -> None:
    """Its connection breaks, and for a while nobody listens: the job still hears what its study says."""
    with socket.create_server(("127.0.0.1", 0)) as dying:
        port = dying.getsockname()[1]
        began = Thread(target=_hang_up_and_return, args=(dying, port, url))
        began.start()
        settings, said = run("ask.sh", CHIMERA_URL=f"http://127.0.0.1:{port}", SLURM_JOB_ID="started again")
        began.join()
    assert "export CHIMERA_WIDTH=" in settings
    assert "as chosen by" in said


def _hang_up_and_return(dying: socket.socket, port: int, url: str) -> None:
    """Take one question and end without an answer; a second later pass on to a service."""
    connection, _ = dying.accept()
    dying.close()
    connection.recv(1)
    connection.close()
    sleep(1.5)
    host, service_port = url.removeprefix("http://").split(":")
    with socket.create_server(("127.0.0.1", port)) as again:
        for _ in range(2):
            question, _ = again.accept()
            with question, socket.create_connection((host, int(service_port))) as service:
                Thread(target=_pass_on, args=(question, service), daemon=True).start()
                _pass_on(service, question)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while said := source.recv(65_536):
            target.sendall(said)
        target.shutdown(socket.SHUT_WR)


def test_only_plain_settings_are_evaluated(script: Script) -> None:
    """Whoever answers cannot run anything in the job."""
    hostile = (
        b"export CHIMERA_WIDTH=8\nexport CHIMERA_DEPTH=$(id)\nexport PATH=/x\nrm .\nexport CHIMERA_X=1;id\n"
    )
    script.answers = [(201, {"Location": f"/v1/studies/{'0' * 26}"}, {}), (200, {}, hostile)]
    assert run("ask.sh", CHIMERA_URL=script.url)[0] == "export CHIMERA_WIDTH=8\n"


def test_the_prolog_speaks_to_slurm(url: str, script: Script) -> None:
    """`export` lines for the task's environment, and `print` lines for people."""
    settings, said = run("task_prolog.sh", CHIMERA_URL=url)
    assert said == ""
    assert {line.split()[0] for line in settings.splitlines()} == {"export", "print"}
    assert "export CHIMERA_DEPTH=" in settings
    told, said = run("task_prolog.sh", CHIMERA_URL=refused(script))
    assert said == ""
    assert [line.split()[:2] for line in told.splitlines()] == [["print", "chimera:"]]


@pytest.mark.parametrize("service", ["live", "dead", "silent", "busy", "fits nowhere"])
def test_the_batch_script_launches_whatever_the_service_does(
    url: str, script: Script, tmp_path: Path, service: str
) -> None:
    """With what was chosen, or with the job's own; srun and scontrol stand in for Slurm's."""
    for name, body in {"srun": 'echo "$@"', "scontrol": "echo node-a"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    script.answers = [problem(503, "unavailable")] * 4
    silent = next(listening := slow())
    address = {"dead": refused(script), "silent": silent, "busy": script.url}.get(service, url)
    slurm = {"SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "node-a", "SLURM_JOB_ID": f"batch {service}"}
    if service == "silent":
        slurm["CHIMERA_PATIENCE"] = "1"
    if service == "fits nowhere":
        slurm |= {"CHIMERA_MODEL": "llama-3-70b", "CHIMERA_CLUSTER": "dgx-h100"}
    command, said = run("train.sbatch", path=f"{tmp_path}:{os.defpath}", CHIMERA_URL=address, **slurm)
    listening.close()
    live = service == "live"
    assert command.startswith("torchrun --nnodes 1 --nproc-per-node 8")
    assert ("--width 8 --depth 4" in command) != live
    assert ("--stage-layers" in command) == live
    assert ("keeps its own settings" in said) != live
