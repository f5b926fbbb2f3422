"""Does Ray run trials over the nodes of a cluster, one after the other where there is no room for both?

`make test-ray` installs what this needs.
"""

import json
import os
import shutil
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
from tests.system.ray_site import ray_site
from tests.system.site import Site as Service

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: make test-ray"),
]

WAIT_S = 240.0


@dataclass(frozen=True)
class Site:
    """A cluster of three nodes with 1, 1 and 2 CPUs."""

    address: str
    remains: Remains

    def start(
        self, folder: Path, *options: str, depth: int = 4, iterations: int = 2
    ) -> "subprocess.Popen[str]":
        """Start an emulated run there."""
        words = ("run", "--launcher", "ray", "--ray-address", self.address, "--schedule", "dapple", "--json")
        layout = ("--depth", str(depth), "--micro-batches", "4", "--iterations", str(iterations))
        return start(*words, *layout, "--emulate", "forward_s=0.01,backward_s=0.02", *options, cwd=folder)

    def ours(self) -> dict[int, str]:
        """The processes of ranks and of what sees to them; Ray's own workers may stay."""
        found = self.remains.processes()
        return {pid: command for pid, command in found.items() if "executor.launchers" in command}

    def wait_for(self, ready: Callable[[], bool]) -> None:
        """Look until it is so."""
        deadline = time.monotonic() + WAIT_S
        while not ready():
            assert time.monotonic() < deadline, f"not so after {WAIT_S} s; {self.ours()}"
            time.sleep(0.1)

    def ranks(self) -> int:
        """How many have begun."""
        return sum("placed_rank" in command for command in self.ours().values())

    def wait_for_ranks(self, ranks: int) -> None:
        """Until so many have begun."""
        self.wait_for(lambda: self.ranks() >= ranks)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One for all tests; nothing is left on it between them."""
    with pytest.MonkeyPatch.context() as patch:
        remains = Remains(uuid4().hex, tmp_path_factory.mktemp("nothing"))
        patch.setenv(MARK, remains.mark)
        with ray_site(1, 1, 2) as address:
            patch.setenv("TMPDIR", str(remains.folder))  # of the runs; Ray's own nodes keep theirs
            yield Site(address, remains)


@pytest.fixture(autouse=True)
def nothing_left(site: Site) -> Iterator[None]:
    """After each test."""
    yield
    site.wait_for(lambda: not site.ours() and not any(site.remains.folder.iterdir()))


def told(result: Result) -> Any:
    """The document that a run printed."""
    assert result.out, result.err
    return json.loads(result.out)


def test_of_two_trials_that_each_need_all_nodes_the_second_waits(site: Site, tmp_path: Path) -> None:
    """Both are run, and who waits hears for what, node by node."""
    runs = [site.start(tmp_path, iterations=20) for _ in range(2)]
    results = [finish(run, timeout=WAIT_S) for run in runs]
    for result in results:
        assert (result.code, told(result)["status"]) == (0, "ok"), result.err
        assert told(result)["measured_iteration_s"]["median"] > 0.2
    waited = [result.err for result in results if "Ray has no room yet" in result.err]
    assert waited
    assert "wanted at once: 4 devices of 1 CPU; room on 3 nodes: " in waited[0]


def test_an_actor_that_is_killed_is_the_outcome(site: Site, tmp_path: Path) -> None:
    """With its rank, what that was doing, and Ray's words; nothing is known of the configuration."""
    run = site.start(tmp_path, iterations=2000)
    site.wait_for_ranks(4)
    actors = [pid for pid, command in site.remains.processes().items() if "ray::PlaceActor" in command]
    assert len(actors) == 4
    time.sleep(2.0)
    os.kill(actors[0], signal.SIGKILL)
    result = finish(run, timeout=WAIT_S)
    failure = told(result)["failure"]
    assert (result.code, told(result)["status"], failure["lost"]) == (3, "failed", True), result.err
    assert failure["rank"] in range(4)
    assert "was lost: its actor died" in failure["message"]


def test_a_rank_that_fails_is_named_with_the_end_of_its_log(site: Site, tmp_path: Path) -> None:
    """The log comes from the node where it ran; the model from the user's own folder."""
    shutil.copy(Path(__file__).with_name("faulty_model.py"), tmp_path / "own.py")
    words = ("run", "--launcher", "ray", "--ray-address", site.address, "--json", "--iterations", "1")
    words += (
        "--model",
        "own.py:make",
        "--schedule",
        "dapple",
        "--depth",
        "2",
        "--micro-batches",
        "4",
    )
    result = finish(start(*words, cwd=tmp_path), timeout=WAIT_S)
    failure = told(result)["failure"]
    assert (result.code, failure["rank"], failure["exception"]) == (1, 1, "ZeroDivisionError"), result.err
    assert failure["operation"]["kind"] == "F"
    assert "printed before the fault" in failure["log"]
    assert "Traceback" in failure["log"]


def test_a_cancelled_run_gives_its_places_back(site: Site, tmp_path: Path) -> None:
    """Also when it is killed, for a worker may do that; the next one finds all nodes free."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        run = site.start(tmp_path, iterations=2000)
        site.wait_for_ranks(4)
        run.send_signal(number)
        finish(run, timeout=WAIT_S)
        site.wait_for(lambda: not site.ours())
    result = finish(site.start(tmp_path, "--queue-timeout", "60"), timeout=WAIT_S)
    assert (result.code, told(result)["status"]) == (0, "ok"), result.err


def test_a_gang_for_which_there_is_no_room_is_told_what_is_missing(site: Site, tmp_path: Path) -> None:
    """At once where the nodes never suffice, else after the time it may wait."""
    never = finish(site.start(tmp_path, depth=6), timeout=WAIT_S)
    assert (never.code, told(never)["status"], told(never)["failure"]["lost"]) == (3, "failed", True)
    assert "wanted at once: 6 devices of 1 CPU; room on 3 nodes: " in told(never)["failure"]["message"]
    assert "missing even when all are idle: 2" in told(never)["failure"]["message"]
    holder = site.start(tmp_path, depth=2, iterations=2000)
    site.wait_for_ranks(2)
    late = finish(site.start(tmp_path, "--queue-timeout", "2"), timeout=WAIT_S)
    holder.terminate()
    finish(holder, timeout=WAIT_S)
    assert (late.code, told(late)["status"], told(late)["failure"]["lost"]) == (3, "timed_out", True)
    assert "had no room within 2 s" in told(late)["failure"]["message"]
    assert "= 2 now, 4 when idle" in told(late)["failure"]["message"]
    assert "missing now: 2" in told(late)["failure"]["message"]


def test_a_tuning_is_run_by_ray(site: Site, tmp_path: Path) -> None:
    """Of a model with weights, in actors."""
    check_tuning("ray", "--ray-address", site.address, folder=tmp_path, environment=dict(os.environ))


def test_a_worker_runs_and_cancels_trials_by_ray(site: Site, sqlite_site: Service) -> None:
    """`chimera worker`, with the devices that it is told of."""
    where = ("--ray-address", site.address)
    check_worker(sqlite_site, "ray", *where, environment=dict(os.environ), ranks=site.ranks)


def test_a_cluster_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """With its address."""
    words = (
        "run",
        "--launcher",
        "ray",
        "--ray-address",
        "127.0.0.1:1",
        "--schedule",
        "dapple",
        "--depth",
        "2",
    )
    result = finish(
        start(*words, "--micro-batches", "2", "--emulate", "forward_s=0.01,backward_s=0.02", cwd=tmp_path),
        timeout=WAIT_S,
    )
    assert result.code == 3
    assert "127.0.0.1:1" in result.out
