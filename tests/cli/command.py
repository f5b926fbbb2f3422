"""How do tests run the command?"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.main import run

CHIMERA = (sys.executable, "-P", "-m", "cli.main")
NO_ANSWER, MOST_TRIES = 3, 5
BERT = ("--model", "bert-48", "--cluster", "piz-daint", "--devices", "32", "--mini-batch-size", "512")


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str


class Shell:
    """Runs `chimera` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Result:
        self._capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        return Result(code, out, err)

    def patiently(self, *arguments: str | Path) -> Result:
        """Run it as one does on a busy machine: once more while the times make no link."""
        return measured(lambda: [self(*arguments)])[0]


def measured(measure: Callable[[], list[Result]]) -> list[Result]:
    """Results of processes of which the first answers; measured again while its times make no link."""
    for _ in range(MOST_TRIES - 1):
        results = measure()
        if results[0].code != NO_ANSWER or "the times make no link" not in results[0].err:
            return results
    return measure()


def start(*arguments: str, cwd: Path, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `chimera` as a process of its own with its streams in pipes."""
    return subprocess.Popen(
        [*CHIMERA, *arguments],
        cwd=cwd,
        env=dict(os.environ) if environment is None else environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], *, timeout: float = 120) -> Result:
    """Wait for a process and take what it wrote."""
    out, err = process.communicate(timeout=timeout)
    return Result(process.returncode, out, err)
