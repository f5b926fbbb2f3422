"""Does a real Slurm run trials through sbatch, each rank on a (fake) GPU of its own, and end them for good?

`make test-slurm` installs what this needs.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.cli.command import Result, finish, start
from tests.executor.launchers.remains import MARK, Remains
from tests.system.by_launcher import check_tuning, check_worker
from tests.system.site import Site as Service
from tests.system.slurm_site import GPUS, missing_programs, slurm_site

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        bool(missing_programs()) or find_spec("submitit") is None or os.geteuid() != 0,
        reason=f"needs root, submitit and Slurm (no {', '.join(missing_programs())}): make test-slurm",
    ),
]

WAIT_S = 240.0
GPU_EACH = ("--gpus-per-rank", "1")
EMULATED = ("--emulate", "forward_s=0.01,backward_s=0.02", "--micro-batches", "4", "--schedule", "dapple")


@dataclass(frozen=True)
class Site:
    """One node with four GPUs."""

    environment: dict[str, str]
    shared: Path
    remains: Remains

    def start(
        self, *options: str, depth: int = GPUS, iterations: int = 2, run: tuple[str, ...] = EMULATED
    ) -> "subprocess.Popen[str]":
        """Start a run there, with a GPU for each rank."""
        words = ("run", "--launcher", "slurm", "--json", *GPU_EACH, *run, *options)
        layout = ("--depth", str(depth), "--iterations", str(iterations))
        return start(*words, *layout, cwd=self.shared.parent, environment=self.surroundings())

    def surroundings(self) -> dict[str, str]:
        """The environment in which commands find this Slurm, and leave nothing elsewhere."""
        own = {MARK: self.remains.mark, "CHIMERA_SHARED_FOLDER": str(self.shared), "TMPDIR": str(self.shared)}
        return dict(os.environ) | self.environment | own

    def ask(self, *command: str) -> str:
        """What a command of Slurm says."""
        environment = os.environ | self.environment
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Look until it is so."""
        deadline = time.monotonic() + WAIT_S
        while not ready():
            assert time.monotonic() < deadline, f"not so after {WAIT_S} s; {self.left()}"
            time.sleep(0.1)

    def ranks(self) -> int:
        """How many have begun."""
        return sum("placed_rank" in command for command in self.remains.processes().values())

    def wait_for_ranks(self, ranks: int) -> None:
        """Until so many have begun."""
        self.wait_for(lambda: self.ranks() >= ranks)

    def left(self) -> list[str]:
        """Jobs, processes and files."""
        jobs = self.ask("squeue", "--noheader").splitlines()
        return [*jobs, *self.remains.processes().values(), *map(str, self.shared.iterdir())]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One for all tests; nothing is left on it between them."""
    with slurm_site() as environment:
        shared = tmp_path_factory.mktemp("shared")
        yield Site(environment, shared, Remains(uuid4().hex, shared))


@pytest.fixture(autouse=True)
def nothing_left(site: Site) -> Iterator[None]:
    """After each test, neither jobs nor processes nor files."""
    yield
    site.wait_for(lambda: site.left() == [])


def told(result: Result) -> Any:
    """The document that a run printed."""
    assert result.out, result.err
    return json.loads(result.out)


def test_of_two_trials_that_each_need_all_gpus_the_second_waits_in_the_queue(site: Site) -> None:
    """Both are run, and who waits hears why, in Slurm's word and in numbers."""
    first = site.start(iterations=100)
    site.wait_for_ranks(GPUS)
    results = [finish(run, timeout=WAIT_S) for run in (site.start(), first)]
    for result in results:
        assert (result.code, told(result)["status"]) == (0, "ok"), result.err
        assert told(result)["machine_quiet"] is None
    assert "waits: Slurm says PENDING (Resources" in results[0].err
    assert "wanted at once: 4 devices of 1 CPU and 1 GPU; room on 1 nodes: 0 = 0 now" in results[0].err


def test_a_rank_that_fails_is_named_with_the_end_of_its_log(site: Site) -> None:
    """The log comes over the shared folder."""
    faulty = ("--model", "tests.system.faulty_model:make", "--micro-batches", "4", "--schedule", "dapple")
    result = finish(site.start(depth=2, iterations=1, run=faulty), timeout=WAIT_S)
    failure = told(result)["failure"]
    assert (result.code, failure["rank"], failure["exception"]) == (1, 1, "ZeroDivisionError"), result.err
    assert (failure["operation"]["kind"], failure["operation"]["micro_batch"]) == ("F", 3)
    assert "printed before the fault" in failure["log"]


def test_a_job_that_is_cancelled_in_slurm_ends_the_run(site: Site) -> None:
    """As something that says nothing of the configuration."""
    run = site.start(depth=2, iterations=2000)
    site.wait_for_ranks(2)
    site.ask("scancel", "--name", "chimera-run")
    result = finish(run, timeout=WAIT_S)
    failure = told(result)["failure"]
    assert (result.code, told(result)["status"], failure["lost"]) == (3, "failed", True), result.err
    assert "was cancelled (scancel)" in failure["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_ends_takes_its_job_along(site: Site, number: int) -> None:
    """However it ends."""
    run = site.start(depth=2, iterations=2000)
    site.wait_for_ranks(2)
    run.send_signal(number)
    finish(run, timeout=WAIT_S)


def test_a_gang_for_which_there_is_no_room_is_told_what_is_missing(site: Site) -> None:
    """At once where Slurm says so, else after the time it may wait, with Slurm's reason."""
    never = finish(site.start(depth=GPUS + 1), timeout=WAIT_S)
    assert (never.code, told(never)["status"], told(never)["failure"]["lost"]) == (3, "failed", True)
    assert "Requested node configuration is not available" in told(never)["failure"]["message"]
    assert "missing even when all are idle: 1" in told(never)["failure"]["message"]
    holder = site.start(depth=2, iterations=2000)
    site.wait_for_ranks(2)
    late = finish(site.start("--queue-timeout", "3"), timeout=WAIT_S)
    holder.terminate()
    finish(holder, timeout=WAIT_S)
    assert (late.code, told(late)["status"], told(late)["failure"]["lost"]) == (3, "timed_out", True)
    assert "--queue-timeout allows 3 s: Slurm says PENDING (Resources" in told(late)["failure"]["message"]
    assert "room on 1 nodes: 2 = 2 now, 4 when idle" in told(late)["failure"]["message"]
    assert "missing now: 2" in told(late)["failure"]["message"]


def test_an_option_that_slurm_does_not_know_is_told_in_its_words(site: Site) -> None:
    """Nothing is left of it."""
    result = finish(site.start("--partition", "nowhere", depth=1), timeout=WAIT_S)
    assert result.code == 3
    assert "invalid partition" in told(result)["failure"]["message"].lower()


def test_a_tuning_is_run_by_slurm(site: Site, tmp_path: Path) -> None:
    """Of a model with weights, in jobs of their own."""
    check_tuning("slurm", *GPU_EACH, folder=tmp_path, environment=site.surroundings())


def test_a_worker_runs_and_cancels_trials_under_slurm(site: Site, sqlite_site: Service) -> None:
    """`chimera worker`, on devices that are Slurm's, not its own machine's."""
    check_worker(sqlite_site, "slurm", *GPU_EACH, environment=site.surroundings(), ranks=site.ranks)
