"""Does `chimera links` write what `chimera plan` and `chimera run` read?"""

import json
import os
import socket
from pathlib import Path

import pytest

from profiles.cluster import ClusterProfile
from tests.cli.command import Result, Shell, finish, measured, start
from tests.conftest import ROOT

QUICK = ("links", "--sizes", "4096,65536,1048576,16777216", "--budget", "0")
PLAN = ("--model", "tiny-gpt", "--devices", "2", "--mini-batch-size", "8", "--json")


def test_measured_links_are_planned_and_run_with(chimera: Shell, tmp_path: Path) -> None:
    """The document names every operation and how well its line fits; a plan says that links are measured."""
    path = tmp_path / "cluster.json"
    result = chimera.patiently(*QUICK, "-o", path, "--name", "two", "--devices-per-node", "4")
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
    software = cluster.software
    assert "Runtime measured in 1 round" in software.source
    assert None not in {software.operation_overhead_s, software.iteration_overhead_s}
    assert software.compute_factor > 0.5
    planned = chimera("plan", "--cluster", path, *PLAN)
    assert planned.code == 0, planned.err
    assert json.loads(planned.out)["provenance"]["links"] == "measured"
    ran = chimera(
        "run", "--cluster", path, "--model", "tiny-gpt", "--schedule", "dapple", "--depth", "2",
        "--micro-batches", "2", "--iterations", "1", "--warm-up", "0", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["predicted_iteration_s"] > 0


def joined(path: Path) -> list[Result]:
    """Four processes on two nodes, with the environment that torchrun gives to each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = os.environ | {"WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    processes = [
        start(
            *QUICK, "-o", str(path), "--devices-per-node", "2",
            cwd=ROOT, environment=shared | {"RANK": str(rank), "GROUP_RANK": str(rank // 2)},
        )
        for rank in range(4)
    ]  # fmt: skip
    return [finish(process) for process in processes]


def test_processes_that_torchrun_started_are_joined(tmp_path: Path) -> None:
    """Four on two nodes: links inside one and between both, told by the first process alone."""
    path = tmp_path / "cluster.json"
    first, *others = measured(lambda: joined(path))
    assert (first.code, "Wrote the cluster" in first.err) == (0, True), first.err
    assert others == [Result(0, "", "")] * 3
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
