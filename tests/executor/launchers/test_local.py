"""Does every run end with an outcome that names the cause, and leave nothing behind?"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from executor.errors import TrialError
from executor.launchers.launch import Launch
from executor.launchers.local import launch_locally
from executor.launchers.outcome import Failure, Outcome, Status
from executor.launchers.watchdog import Limits
from tests.executor.launchers.remains import Remains

BODIES = "tests.executor.launchers.bodies:"


def launch(body: str, *, ranks: int = 2, spec: dict[str, Any] | None = None, **options: Any) -> Outcome:
    """Run a body of the tests."""
    limits = Limits(**{"timeout_s": 90.0} | options.pop("limits", {}))
    return launch_locally(Launch(BODIES + body, spec or {}, ranks, limits=limits, **options))


def failure_of(outcome: Outcome) -> Failure:
    """What ended a run that did not end well."""
    assert outcome.failure is not None
    return outcome.failure


def test_ranks_return_their_results_in_order(remains: Remains, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that went round a ring of three four times have moved on by one; a thread for each rank.

    Whatever a cluster's settings say of ranks, addresses and interfaces.
    """
    surroundings = {"RANK": "3", "WORLD_SIZE": "8", "MASTER_ADDR": "nowhere.invalid", "MASTER_PORT": "1",
                    "GLOO_SOCKET_IFNAME": "missing9"}  # fmt: skip
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    outcome = launch("ring", ranks=3, spec={"rounds": 4})
    assert (outcome.status, outcome.failure) == (Status.OK, None)
    assert [result["value"] for result in outcome.results] == [2.0, 0.0, 1.0]
    assert {result["threads"] for result in outcome.results} == {1}
    assert remains.found() == []


@pytest.mark.parametrize(
    ("what", "code", "ended_by", "exception", "words"),
    [
        ("raise", 1, None, "ZeroDivisionError", "stage 2 divides by nothing"),
        ("kill", None, "SIGKILL", None, "killed by SIGKILL, not by this program"),
        ("crash", None, "SIGSEGV", None, "ended by SIGSEGV"),
        ("exit", 7, None, None, "left with exit code 7"),
        ("leave", 0, None, None, "left with exit code 0 before its work was done"),
    ],
)
def test_the_rank_that_failed_first_is_named(
    remains: Remains, what: str, code: int | None, ended_by: str | None, exception: str | None, words: str
) -> None:
    """With operation, micro-batch and cause; the peers whose connections broke are not taken for it."""
    outcome = launch("ring", ranks=4, spec={"rounds": 9, "victim": 2, "at": 3, "what": what})
    failure = failure_of(outcome)
    assert outcome.status == Status.FAILED
    assert (failure.rank, failure.exit_code, failure.signal, failure.exception) == (
        2,
        code,
        ended_by,
        exception,
    )
    assert failure.operation is not None
    assert (failure.operation.micro_batch, failure.operation.kind) == (3, "F")
    assert words in failure.message
    assert "rank 2 of 4, at operation 3, 2F3" in failure.message
    assert remains.found() == []


def test_a_rank_that_leaves_before_a_groups_first_collective_is_named(remains: Remains) -> None:
    """The others, which wait for it without a timeout, are ended."""
    failure = failure_of(launch("quit_early", ranks=3))
    assert (failure.rank, failure.exit_code) == (0, 86)
    assert "SYNC" in failure.message
    assert remains.found() == []


def test_a_stopped_rank_is_named(remains: Remains) -> None:
    """Its process tells nothing, but its state does."""
    spec = {"rounds": 9, "victim": 1, "at": 3, "what": "stop"}
    outcome = launch("ring", ranks=3, spec=spec, limits={"stopped_s": 1.0})
    failure = failure_of(outcome)
    assert (outcome.status, failure.rank) == (Status.TIMED_OUT, 1)
    assert "1F3" in failure.message
    assert "SIGSTOP" in failure.message
    assert remains.found() == []


def test_of_ranks_that_stand_still_the_one_is_named_that_does_not_wait(remains: Remains) -> None:
    """The others wait for a message."""
    outcome = launch("silent", ranks=3, limits={"silence_s": 2.0})
    failure = failure_of(outcome)
    assert (outcome.status, failure.rank) == (Status.TIMED_OUT, 0)
    assert "0B2" in failure.message
    assert "more than 2 s" in failure.message
    assert remains.found() == []


def test_running_out_of_memory_is_a_result(remains: Remains) -> None:
    """With the rank, what it asked for, and what it may take."""
    outcome = launch("allocate", spec={"victim": 1, "bytes": 3 << 30}, memory_limit_bytes=1 << 30)
    failure = failure_of(outcome)
    assert (outcome.status, failure.rank) == (Status.OUT_OF_MEMORY, 1)
    assert (failure.requested_bytes, failure.limit_bytes) == (3 << 30, 1 << 30)
    assert remains.found() == []


def test_peak_memory_is_that_of_the_timed_part_above_the_baseline() -> None:
    """Half a gigabyte that was freed before is not in it, 64 MiB that are held are."""
    outcome = launch("allocate", ranks=1, spec={"victim": 0, "bytes": 1 << 29, "kept": 1 << 26})
    (result,) = outcome.results
    assert 1 << 26 <= result["used_bytes"] < 1 << 28
    assert result["peak_bytes"] == result["used_bytes"] + result["baseline_bytes"]


def test_a_body_that_cannot_be_imported_is_told() -> None:
    """By the exception's type and words, with the end of the log."""
    outcome = launch_locally(Launch("tests.nowhere:body", {}, 1))
    failure = failure_of(outcome)
    assert (failure.rank, failure.exception) == (0, "ModuleNotFoundError")
    assert "tests.nowhere" in failure.message
    assert "Traceback" in failure.log


def test_a_device_that_is_not_there_is_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a rank's division by none."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(TrialError, match="no CUDA device"):
        launch("ring", device="cuda")


def test_what_a_rank_leaves_running_is_ended(remains: Remains) -> None:
    """Also a process that has a session of its own."""
    assert launch("with_child").status == Status.OK
    assert remains.found() == []


def test_two_runs_at_once_do_not_meet(remains: Remains) -> None:
    """Each has its own ports, files and outcome."""
    outcomes: dict[str, Outcome] = {}

    def start(name: str, spec: dict[str, Any]) -> threading.Thread:
        thread = threading.Thread(target=lambda: outcomes.update({name: launch("ring", spec=spec)}))
        thread.start()
        return thread

    ill = {"rounds": 5, "victim": 0, "at": 2, "what": "exit"}
    for thread in [start("well", {"rounds": 5}), start("ill", ill)]:
        thread.join()
    assert outcomes["well"].status == Status.OK
    assert failure_of(outcomes["ill"]).exit_code == 7
    assert remains.found() == []


@pytest.fixture
def full_disk(tmp_path: Path) -> Any:
    """A folder on a file system without a free byte."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        with pytest.raises(OSError, match="No space left"):
            (folder / "filler").write_bytes(b"x" * 100_000)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("victim", [None, 1])
def test_a_full_disk_changes_no_outcome(full_disk: Path, victim: int | None) -> None:
    """What cannot be logged is dropped."""
    outcome = launch("chatter", spec={"lines": 200, "victim": victim}, logs=str(full_disk))
    if victim is None:
        assert outcome.results == ("said", "said")
    else:
        assert failure_of(outcome).message.endswith("ValueError: after all that was said")
    assert [path.name for path in full_disk.iterdir()] == ["filler"]


CALLER = """
import sys
from tests.executor.launchers.test_local import launch
launch("tell_and_hang", spec={"pipe": sys.argv[1]})
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_survives_its_caller(remains: Remains, tmp_path: Path, number: int) -> None:
    """Whether the caller is interrupted, terminated or killed."""
    pipe = tmp_path / "begun"
    os.mkfifo(pipe)
    caller = subprocess.Popen([sys.executable, "-P", "-c", CALLER, pipe], stderr=subprocess.DEVNULL)
    assert pipe.read_text(encoding="ascii") == "begun"
    caller.send_signal(number)
    assert caller.wait(60) != 0
    remains.wait_for_end()
    assert remains.found() == []


@pytest.mark.parametrize(
    ("command", "turn"),
    [("supervisor", 0), ("agent", 0), ("agent", 1)],
    ids=["supervisor", "agent", "fork server"],
)
def test_nothing_survives_the_loss_of_a_process_between(
    remains: Remains, tmp_path: Path, command: str, turn: int
) -> None:
    """The kernel ends what is below it; the caller is told."""
    pipe = tmp_path / "begun"
    os.mkfifo(pipe)
    caller = subprocess.Popen([sys.executable, "-P", "-c", CALLER, pipe], stderr=subprocess.DEVNULL)
    assert pipe.read_text(encoding="ascii") == "begun"
    found = remains.processes()
    # The agent forks the server, and the server the ranks: all have one command line.
    os.kill(sorted(pid for pid, words in found.items() if command in words)[turn], signal.SIGKILL)
    caller.wait(60)
    remains.wait_for_end()
    assert remains.processes() == {}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_twenty_runs_leave_nothing_behind(remains: Remains) -> None:
    """Neither processes, which would hold ports, nor files, nor open descriptors here."""
    launch("ring", spec={"rounds": 1})
    descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(20):
        assert launch("ring", spec={"rounds": 1}).status == Status.OK
    assert remains.found() == []
    assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
