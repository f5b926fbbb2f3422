"""Does `chimera links` write what `chimera plan` and `chimera run` read?"""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from profiles.cluster import ClusterProfile
from tests.cli.command import CHIMERA, Shell
from tests.conftest import ROOT

QUICK = ("links", "--sizes", "4096,65536,1048576,4194304", "--budget", "0")
PLAN = ("--model", "tiny-gpt", "--devices", "2", "--mini-batch-size", "8", "--json")


def test_measured_links_are_planned_and_run_with(chimera: Shell, tmp_path: Path) -> None:
    """The document names every operation and how well its line fits; a plan says that links are measured."""
    path = tmp_path / "cluster.json"
    result = chimera(*QUICK, "-o", path, "--name", "two", "--devices-per-node", "4")
    assert (result.code, result.out) == (0, ""), result.err
    cluster = ClusterProfile.from_json(path.read_text())
    link = cluster.node.link
    assert (cluster.name, cluster.max_devices) == ("two", 4)
    assert link is not None
    assert {link.provenance, cluster.link.provenance} == {"measured"}
    fits = {fit.operation: fit for fit in link.fits or ()}
    assert set(fits) == {"p2p", "all_reduce", "all_gather", "reduce_scatter"}
    assert fits["p2p"].transfer == link.p2p == cluster.link.p2p
    assert fits["all_reduce"].transfer == link.collective
    assert all(len(fit.points) == 4 and fit.residual <= fit.largest_residual for fit in fits.values())
    planned = chimera("plan", "--cluster", path, *PLAN)
    assert planned.code == 0, planned.err
    assert json.loads(planned.out)["provenance"]["links"] == "measured"
    ran = chimera(
        "run", "--cluster", path, "--model", "tiny-gpt", "--schedule", "dapple", "--depth", "2",
        "--micro-batches", "2", "--iterations", "1", "--warm-up", "0", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["predicted_iteration_s"] > 0


def test_processes_that_torchrun_started_are_joined(tmp_path: Path) -> None:
    """Four on two nodes: links inside one and between both, told by the first process alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    path = tmp_path / "cluster.json"
    processes = []
    for rank in range(4):
        joined = {"RANK": str(rank), "WORLD_SIZE": "4", "GROUP_RANK": str(rank // 2)}
        environment = os.environ | joined | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        arguments = [*CHIMERA, *QUICK, "-o", str(path), "--devices-per-node", "2"]
        processes.append(
            subprocess.Popen(
                arguments,
                cwd=ROOT,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    answers = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0, 0], answers
    assert "Wrote the cluster" in answers[0][1]
    assert all(answer == ("", "") for answer in answers[1:])
    cluster = ClusterProfile.from_json(path.read_text())
    assert (cluster.node.devices, cluster.max_devices) == (2, 4)
    assert cluster.node.link is not None
    assert cluster.node.link.fits != cluster.link.fits
    assert "between 2 nodes" in cluster.link.source


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (("--processes", "1"), "two ends"),
        (("--processes", "-3"), "two ends"),
        (("--sizes", "4096"), "1 size"),
        (("--sizes", "4096,8192"), "too alike"),
        (("--sizes", "a"), "whole numbers"),
        (("--accelerator", "a100"), "a100-40gb"),
        (("--devices-per-node", "0"), "devices-per-node"),
        (("--name", ""), "name"),
    ],
)
def test_bad_input_is_refused(chimera: Shell, arguments: tuple[str, ...], wanted: str) -> None:
    """One line, exit code 2, before anything is started."""
    result = chimera("links", *arguments)
    assert (result.code, result.out) == (2, "")
    assert wanted in result.err


def test_what_takes_too_long_is_not_answered(chimera: Shell) -> None:
    """The processes are ended, and the exit code says that there is no answer."""
    result = chimera("links", "--timeout", "1", "--budget", "60")
    assert (result.code, result.out) == (3, "")
    assert "could not be measured" in result.err
