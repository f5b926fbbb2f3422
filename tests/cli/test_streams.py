"""Does the command behave in pipes, on full disks and when interrupted? Each in a process of its own."""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import BERT, CHIMERA, finish, start


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("plan", *BERT, "--json"), 0),
        (("plan", *BERT, "--devices", "1", "--schedules", "chimera", "--json"), 1),
        (("plan", *BERT, "--devices", "zero"), 2),
        (("profile", "--model", "tiny-gpt", "--on", "cuda"), 3),
    ],
)
def test_exit_codes_are_the_processs(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    """0 done, 1 nothing fits, 2 bad input, 3 not answered; JSON alone on stdout, errors alone on stderr."""
    result = finish(start(*arguments, cwd=tmp_path))
    assert result.code == code, result
    if code < 2:
        assert json.loads(result.out)
        assert result.err == ""
    else:
        assert result.out == ""
        assert result.err.startswith("error: ")


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    """`chimera plan | head` prints no trace."""
    process = start("plan", *BERT, "--json", cwd=tmp_path)
    assert process.stdout
    assert process.stderr
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=120) == 141
    process.stderr.close()


def test_a_full_disk_behind_stdout_is_told(tmp_path: Path) -> None:
    """An answer that did not arrive is not a success."""
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*CHIMERA, "plan", *BERT, "--json"],
            cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120,
        )  # fmt: skip
    assert result.returncode == 3
    assert result.stderr.startswith("error: the system refused: [Errno 28]")
    assert "Traceback" not in result.stderr


def test_streams_may_be_closed(tmp_path: Path) -> None:
    """`chimera ... >&- 2>&-`, as some start daemons: no defect, and no file takes the place of stdout."""
    written = tmp_path / "answer.html"
    command = shlex.join([*CHIMERA, "plan", *BERT, "--report", str(written)])
    for closed in (">&-", "<&- >&- 2>&-"):
        assert subprocess.run(["sh", "-c", f"{command} {closed}"], cwd=tmp_path, check=False).returncode == 0
        assert written.read_text().rstrip().endswith("</html>")
        written.unlink()


def test_an_interrupt_is_quiet(tmp_path: Path) -> None:
    """Ctrl+C while a model is read leaves with 130 and no trace."""
    pipe = tmp_path / "config.json"
    os.mkfifo(pipe)
    process = start("plan", "--model", str(pipe), "--sequence-length", "8", *BERT[2:], cwd=tmp_path)
    # Opening for writing waits until the command has opened the other end, so it is inside its read.
    with pipe.open("wb"):
        process.send_signal(signal.SIGINT)
        result = finish(process)
    assert result.code == 130
    assert "Traceback" not in result.err


def test_a_terminal_without_the_signs_shows_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ASCII terminal gets an answer, not a trace."""
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    result = finish(start("plan", *BERT, cwd=tmp_path))
    assert result.code == 0
    assert re.search(r"Run \w+ with W=", result.out)


def test_a_folder_with_our_names_does_not_get_in(tmp_path: Path) -> None:
    """A user's own api/, cli/ and profiles/ are not ours."""
    for package in ("api", "cli", "profiles", "tuner"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(
            "raise RuntimeError('the wrong package was imported')\n"
        )
    result = finish(start("plan", *BERT, "--json", cwd=tmp_path))
    assert result.code == 0, result.err
