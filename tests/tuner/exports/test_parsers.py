"""Do the frameworks' own parsers read the exports as what was planned? Their wheels come from the index."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from platform import machine
from typing import Any
from zipfile import ZipFile

import pytest

from tests.plans import make_candidate, make_plan
from tests.tuner.exports.test_frameworks import REQUESTS, chosen_of, plan_of
from tuner.exports import export
from tuner.plan import Plan

pytestmark = pytest.mark.long

PARSERS = Path(__file__).with_name("parsers")
WHEELS = {
    # Its wheel is for 3.12 and newer, and its parser runs on 3.11 too: it is unpacked, not installed.
    "megatron": (["megatron-core==0.19.2"], ["triton"]),
    "torchtitan": (
        [],
        ["torchtitan==0.3.0", "spmd_types==0.2.3", "tyro", "typeguard", "docstring-parser", "shtab"],
    ),
    "deepspeed": ([], ["deepspeed==0.19.8", "hjson", "py-cpuinfo", "msgpack", "ninja", "einops"]),
}
"""What is unpacked, and what is installed, without anything that these need beyond their parsers."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes a folder with a framework; the test is skipped where the index does not give it."""
    pytest.importorskip("torch", reason="needs torch")

    @cache
    def install(name: str) -> Path | str:
        folder = tmp_path_factory.mktemp(name)
        unpacked, wanted = WHEELS[name]
        said = pip("install", "--no-build-isolation", "--target", folder, *wanted)
        if unpacked and not said:
            newer = ["--python-version", "3.12", "--only-binary", ":all:", "--dest", folder]
            platforms = [f"--platform=manylinux_2_{libc}_{machine()}" for libc in (28, 24)]
            said = pip("download", *newer, *platforms, *unpacked)
        for wheel in folder.glob("*.whl"):
            ZipFile(wheel).extractall(folder)
        return said or folder

    def folder_of(name: str) -> Path:
        found = install(name)
        if isinstance(found, str):
            pytest.skip(f"the index does not give {name}: {found}")
        return found

    return folder_of


def pip(command: str, *words: object) -> str:
    """Run pip; gives the end of what it said where it failed."""
    asked = [sys.executable, "-m", "pip", command, "-q", "--no-deps", *map(str, words)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=900)
    return done.stderr[-300:] if done.returncode else ""


def read(name: str, folder: Path, arguments: list[str], *, text: str = "") -> dict[str, Any]:
    """What the framework's parser made of an export."""
    done = subprocess.run(
        [sys.executable, "-P", PARSERS / f"{name}.py", *arguments],
        env={
            "PYTHONPATH": str(folder),
            "PATH": "/usr/bin:/bin",
            "DS_ACCELERATOR": "cpu",
            "HOME": str(folder),
        },
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def plans() -> dict[str, Plan]:
    """Real plans of 1F1B, and one of everything that is unusual."""
    odd = make_candidate(schedule="interleaved", chunks=2, stage_layers=(1, 2, 2, 2, 2, 2, 3, 2))
    return {name: plan_of(name) for name in REQUESTS} | {"interleaved": make_plan(odd)}


@pytest.mark.parametrize("name", [*REQUESTS, "interleaved"])
def test_megatron_parses_its_flags(installed: Callable[[str], Path], name: str) -> None:
    """Sizes, and the layout as Megatron itself reads it."""
    plan = plans()[name]
    chosen = chosen_of(plan)
    flags = read("megatron", installed("megatron"), shlex.split(export(plan, "megatron")[0], comments=True))
    assert flags["pipeline_model_parallel_size"] == chosen.depth
    assert flags["num_layers"] == plan.model.blocks
    assert flags["micro_batch_size"] == chosen.micro_batch_size
    assert flags["global_batch_size"] == chosen.width * chosen.micro_batches * chosen.micro_batch_size
    assert flags["bf16"] == (plan.model.precision == "bfloat16")
    assert flags["stages"] in (None, list(chosen.stage_layers))


@pytest.mark.parametrize("name", [*REQUESTS, "interleaved"])
def test_torchtitan_parses_its_options(installed: Callable[[str], Path], name: str) -> None:
    """Degrees, sizes and the modules of each stage."""
    plan = plans()[name]
    chosen = chosen_of(plan)
    words = shlex.split(export(plan, "torchtitan")[0], comments=True)
    config = read("torchtitan", installed("torchtitan"), words)
    parallelism, training = config["parallelism"], config["training"]
    assert parallelism["pipeline_parallel_degree"] == chosen.depth
    assert training["local_batch_size"] == chosen.micro_batches * chosen.micro_batch_size
    counts = [
        sum("layers." in module for module in part) for part in parallelism["module_fqns_per_model_part"]
    ]
    assert counts == list(chosen.stage_layers)
    assert config["activation_checkpoint"] == ("FullAC.Config" if chosen.recompute == "layer" else None)


@pytest.mark.parametrize("name", REQUESTS)
def test_deepspeed_parses_its_configuration(installed: Callable[[str], Path], name: str) -> None:
    """Batch sizes that agree with the replicas, the ZeRO stage and the precision."""
    plan = plans()[name]
    chosen = chosen_of(plan)
    text = export(plan, "deepspeed")[0]
    config = read("deepspeed", installed("deepspeed"), [str(chosen.width)], text=text)
    assert config["train_batch_size"] == plan.request["mini_batch_size"]
    assert (config["micro"], config["steps"]) == (chosen.micro_batch_size, chosen.micro_batches)
    assert config["stage"] == (plan.request["optimizer_sharding"] == "replicas")
    assert config["bf16"] == (plan.model.precision == "bfloat16")
