"""Does every `chimera run` that goes wrong end by itself, name the cause, and leave nothing behind?

What goes wrong happens in a layer of a user's own factory, at the sample of micro-batch 3 on rank 1. How long
a run lives after that is in the report as the property death_to_exit_s.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Result, finish, start
from tests.executor.launchers.remains import MARK, Remains, watch_remains

pytestmark = pytest.mark.slow

WATCHDOG_S = 120.0
LISTENING = "0A"
MIB = 2**20
EMULATED = (
    "run", "--schedule", "chimera", "--depth", "2", "--micro-batches", "4", "--json",
    "--emulate", "forward_s=0.004,backward_s=0.008", "--iterations", "2",
)  # fmt: skip

FACTORY = """
import os, signal, time
from pathlib import Path
import torch
from torch import nn

def fail():
    Path({death!r}).write_text(str(time.monotonic()))
    {fault}

class Fault(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        if {way!r} == "F":
            fail()
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        if {way!r} == "B":
            fail()
        return gradient

class Scale(nn.Module):
    def __init__(self, faulty):
        super().__init__()
        self.weight, self.faulty = nn.Parameter(torch.ones(1)), faulty

    def forward(self, value):
        if self.faulty and value.max() == 3:
            value = Fault.apply(value)
        return value * self.weight

class Model:
    layers = property(lambda self: [Scale(False), Scale(True)])

    def loss(self, output, target):
        return ((output - target) ** 2).mean()

    def batch(self, samples, *, seed):
        values = torch.arange(float(samples)).reshape(-1, 1)
        return values, values

def make():
    return Model()
"""


@pytest.fixture
def remains(monkeypatch: pytest.MonkeyPatch) -> Iterator[Remains]:
    """What is started from now on, and its files."""
    yield from watch_remains(monkeypatch)


def faulty_run(folder: Path, fault: str, *, way: str = "F") -> tuple[str, ...]:
    """Words of a run with that statement in a forward or backward (F or B) of its second stage."""
    factory, death = folder / "faulty.py", folder / "death"
    factory.write_text(FACTORY.format(fault=fault, way=way, death=str(death)), encoding="utf-8")
    return (
        "run", "--model", f"{factory}:make", "--schedule", "dapple", "--depth", "2",
        "--micro-batches", "4", "--iterations", "1", "--warm-up", "0", "--json",
    )  # fmt: skip


def listening_sockets() -> dict[str, int]:
    """Ports that somebody listens on, by inode."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    fields = [line.split() for line in lines]
    return {field[9]: int(field[1].split(":")[1], 16) for field in fields if field[3] == LISTENING}


def sockets_of_others(mark: str) -> set[str]:
    """Inodes of sockets that processes without the mark hold."""
    found: set[str] = set()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={mark}".encode() not in (entry / "environ").read_bytes():
                found |= {
                    str(file.readlink())[len("socket:[") : -1]
                    for file in (entry / "fd").iterdir()
                    if str(file.readlink()).startswith("socket:[")
                }
        except OSError:
            continue
    return found


def assert_nothing_left(remains: Remains, ports: dict[str, int]) -> None:
    """No process, file, semaphore or listening port of the runs."""
    assert remains.found() == []
    new = listening_sockets().keys() - ports.keys() - sockets_of_others(remains.mark)
    assert new & listening_sockets().keys() == set()  # others' ports may have been closed meanwhile


def told(result: Result) -> dict[str, Any]:
    """The document that the run printed."""
    document: dict[str, Any] = json.loads(result.out)
    return document


@pytest.mark.parametrize(
    ("fault", "way", "options", "code", "status", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "F", (), 3, "failed", "SIGKILL"),
        ("raise ZeroDivisionError('no such scale')", "F", (), 1, "failed", "no such scale"),
        ("raise ZeroDivisionError('no such scale')", "B", (), 1, "failed", "no such scale"),
        ("torch.ones(2**29)", "F", ("--memory-limit", str(512 * MIB)), 1, "out_of_memory", "memory"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "B", (), 3, "timed_out", "SIGSTOP"),
    ],
    ids=["killed", "raises in a forward", "raises in a backward", "out of memory", "stopped"],
)
def test_a_run_that_goes_wrong_names_rank_operation_and_micro_batch(
    remains: Remains,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    fault: str,
    way: str,
    options: tuple[str, ...],
    code: int,
    status: str,
    words: str,
) -> None:
    """It ends by itself with the exit code of its cause."""
    ports = listening_sockets()
    result = finish(start(*faulty_run(tmp_path, fault, way=way), *options, cwd=tmp_path), timeout=WATCHDOG_S)
    lived_s = time.monotonic() - float((tmp_path / "death").read_text())
    request.node.user_properties.append(("death_to_exit_s", lived_s))
    document = told(result)
    failure = document["failure"]
    assert (result.code, document["status"], failure["rank"]) == (code, status, 1), result.err
    assert (failure["operation"]["kind"], failure["operation"]["micro_batch"]) == (way, 3)
    assert words in failure["message"]
    assert_nothing_left(remains, ports)


def test_of_two_runs_at_once_one_may_die_alone(remains: Remains, tmp_path: Path) -> None:
    """The other ends well."""
    ports = listening_sockets()
    dying = start(*faulty_run(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)"), cwd=tmp_path)
    living = start(*EMULATED, cwd=tmp_path)
    ended = [finish(process, timeout=WATCHDOG_S) for process in (dying, living)]
    assert [(result.code, told(result)["status"]) for result in ended] == [(3, "failed"), (0, "ok")]
    assert_nothing_left(remains, ports)


@pytest.fixture
def full_disk(remains: Remains) -> Iterator[Remains]:
    """The folder for temporary files is a disk of its own, with no byte left."""
    mount = ("mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=64", "tmpfs", str(remains.folder))
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    filler = remains.folder / "filler"
    try:
        with suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        yield remains
    finally:
        subprocess.run(("umount", str(remains.folder)), check=True)


def test_a_full_disk_does_not_hide_why_a_run_failed(full_disk: Remains, tmp_path: Path) -> None:
    """Logs are lost, the outcome is not, and only what filled the disk is left on it."""
    result = finish(
        start(*faulty_run(tmp_path, "raise ZeroDivisionError('no such scale')"), cwd=tmp_path),
        timeout=WATCHDOG_S,
    )
    failure = told(result)["failure"]
    assert (result.code, failure["rank"], failure["operation"]["micro_batch"]) == (1, 1, 3), result.err
    assert "no such scale" in failure["message"]
    assert [Path(left).name for left in full_disk.found()] == ["filler"]
