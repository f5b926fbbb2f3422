"""Do the launch lines start what was planned, on as many nodes as it takes?"""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from profiles import library
from tests.plans import make_candidate, make_plan
from tuner.exports import export
from tuner.plan import Plan
from tuner.planning import answer
from tuner.request import read_request

ROOT = Path(__file__).parents[3]
OPTIONS = Path(__file__).with_name("options")
TWELVE = {"width": 3, "depth": 4, "micro_batches": 4}
SAYS = {
    "scontrol": 'echo "node-a\nnode-b"',
    # One task for each node, as --ntasks-per-node=1 asks.
    "srun": 'shift; SLURM_NODEID=0 "$@"; SLURM_NODEID=1 "$@"',
    "torchrun": 'printf "%s\\n" "$*"',
}


def known(name: str) -> dict[str, str]:
    """The options that a release documents."""
    found: dict[str, str] = json.loads((OPTIONS / f"{name}.json").read_text(encoding="utf-8"))["options"]
    return found


def tiny_plan() -> Plan:
    """A plan of two processes on the CPU."""
    asked = {"model": "tiny-gpt", "cluster": "local-cpu", "devices": 2, "mini_batch_size": 8, "depth": 2}
    return answer(read_request({**asked, "schedules": "dapple", "precision": "float32"}), library)


def words_of(text: str) -> list[str]:
    """A command of several lines, as a shell splits it."""
    return shlex.split(text.replace("\\\n", " "), comments=True)


def test_torchrun_and_the_training_script_take_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers, over a choice with every option."""
    run = pytest.importorskip("torch.distributed.run", reason="needs torch")
    everything = {"recompute": "stage", "scaling": "doubling", "pipe_pairs": 2, "chunks": 2}
    sharded = {"optimizer_sharding": "replicas", "gradient_precision": "same"}
    plan = make_plan(make_candidate(**TWELVE, **everything), request=sharded)
    asked = run.parse_args(words_of(export(plan, "torchrun")[0])[1:])
    assert (asked.nnodes, asked.nproc_per_node, asked.rdzv_backend) == ("2", "8", "c10d")
    script = runpy.run_path(str(ROOT / asked.training_script))
    monkeypatch.setattr("sys.argv", [asked.training_script, *asked.training_script_args])
    flags = script["arguments"]()
    configuration = script["configuration"](flags)
    assert configuration.document() == {name: getattr(plan.chosen, name) for name in configuration.document()}
    assert (flags.stage_layers, flags.precision, flags.optimizer_sharding) == (
        [4] * 4,
        "bfloat16",
        "replicas",
    )


@pytest.mark.long
def test_the_torchrun_line_trains() -> None:
    """Its processes start, cut the model as planned and take a step."""
    pytest.importorskip("torch", reason="needs torch")
    command = words_of(export(tiny_plan(), "torchrun")[0])
    assert command[0] == "torchrun"
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *command[1:], "--steps", "1"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(r"step +1  loss \d", done.stdout)


def test_the_torchrun_line_names_every_node() -> None:
    """Twelve processes on nodes of eight: the second node starts four, and the line says so."""
    text = export(make_plan(make_candidate(**TWELVE)), "torchrun")[0]
    words = words_of(text)
    written = {word for word in words[: words.index("examples/train_gpt.py")] if word.startswith("--")}
    assert written <= known("torchrun").keys()
    assert words[1:5] == ["--nnodes", "2", "--nproc-per-node", "8"]
    assert "--nproc-per-node 4" in next(line for line in text.splitlines() if "do not fill" in line)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_batch_script_starts_all_processes_once(shell: str, tmp_path: Path) -> None:
    """Each node its share, with the flags of the choice and the job's own arguments; srun stands in here."""
    for name, body in SAYS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    script = tmp_path / "job.sh"
    script.write_text(export(make_plan(make_candidate(**TWELVE, recompute="layer")), "slurm")[0])
    done = subprocess.run(
        [shell, script, "--steps", "a b"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_NODELIST": "node-[a-b]", "SLURM_JOB_ID": "7"},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    first, second = done.stdout.splitlines()
    assert "--nnodes 2 --nproc-per-node 8" in first
    assert "--rdzv-id 7 --rdzv-endpoint node-a:29517" in first
    assert second == first.replace("--nproc-per-node 8", "--nproc-per-node 4")
    assert first.endswith("--width 3 --depth 4 --micro-batch-size 4 --micro-batches 4 --stage-layers 4,4,4,4 "
                          "--precision bfloat16 --device cuda --recompute layer --steps a b")  # fmt: skip


def test_the_batch_script_asks_for_what_it_uses() -> None:
    """Two nodes with all of their devices, by options that sbatch has, before the first command."""
    lines = export(make_plan(make_candidate(**TWELVE)), "slurm")[0].splitlines()
    asked = dict(line.removeprefix("#SBATCH ").split("=") for line in lines if line.startswith("#SBATCH"))
    assert asked.keys() <= known("slurm").keys()
    assert asked == {
        "--job-name": "chimera", "--nodes": "2", "--ntasks-per-node": "1", "--gpus-per-node": "8",
    }  # fmt: skip
    assert lines.index("set -eu") > max(place for place, line in enumerate(lines) if "#SBATCH" in line)


@pytest.mark.parametrize("width", [1, 3])
def test_the_ray_program_compiles_and_reserves_every_device(width: int) -> None:
    """One bundle for each node, with the devices of that node."""
    text = export(make_plan(make_candidate(width=width)), "ray")[0]
    compile(text, "job.py", "exec")
    assert f"PROCESSES = {[4] if width == 1 else [8, 4]}" in text
    assert ("STRICT_SPREAD" in text) == (width == 3)


@pytest.mark.long
def test_ray_runs_the_program(tmp_path: Path) -> None:
    """On a cluster of this machine: the processes meet, train and end."""
    pytest.importorskip("ray", reason="needs ray")
    (tmp_path / "job.py").write_text(export(tiny_plan(), "ray")[0])
    done = subprocess.run(
        [sys.executable, str(tmp_path / "job.py"), "--steps", "1"],
        cwd=ROOT,
        # A cluster of its own, whatever else runs here.
        env=os.environ | {"OMP_NUM_THREADS": "1", "RAY_ADDRESS": "local", "RAY_USAGE_STATS_ENABLED": "0"},
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.search(r"step +1  loss \d", done.stdout + done.stderr)
