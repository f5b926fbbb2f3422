"""How do tests run the command?"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.main import run

CHIMERA = (sys.executable, "-P", "-m", "cli.main")
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


def start(*arguments: str, cwd: Path, **options: object) -> subprocess.Popen[str]:
    """Start `chimera` as a process of its own with its streams in pipes."""
    environment = dict(os.environ)
    return subprocess.Popen(
        [*CHIMERA, *arguments],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def finish(process: subprocess.Popen[str], *, timeout: float = 60) -> Result:
    """Wait for a process and take what it wrote."""
    out, err = process.communicate(timeout=timeout)
    return Result(process.returncode, out, err)
