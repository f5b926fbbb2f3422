"""What has this machine for jobs? Processors with their memory, and the accelerators that torch sees."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from executor.errors import ConfigurationError
from profiles import library
from tuner.messages import DeviceGroup, JobKind, WorkerInventory

_LOOK_S = 120.0
"""How long torch may take to start on a busy machine."""
_SOFTWARE = ("torch", "transformers", "numpy")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def take_inventory(
    *, identifier: str, name: str | None = None, pools: tuple[str, ...] = (), accelerator: str | None = None
) -> WorkerInventory:
    """Who this worker is and what it has; by default its name is the host's and its pool `default`.

    `accelerator` is the data sheet of the accelerators, where they do not tell it. Raises ConfigurationError
    where they cannot be used.
    """
    return WorkerInventory(
        id=identifier,
        name=(name or platform.node() or "worker")[:200],
        version=version("chimera-tuner"),
        pools=pools or ("default",),
        devices=(*_accelerators(accelerator), _processors()),
        software={"python": platform.python_version()} | _software(),
    )


def offer_cluster(
    *, identifier: str, accelerator: str, count: int, name: str | None = None, pools: tuple[str, ...] = ()
) -> WorkerInventory:
    """A worker for a cluster: it runs trials on `count` devices of a data sheet, none of this machine.

    Raises DocumentError for a data sheet that does not exist.
    """
    sheet = library.load_accelerator(accelerator)
    return WorkerInventory(
        id=identifier,
        name=(name or platform.node() or "worker")[:200],
        version=version("chimera-tuner"),
        kinds=(JobKind.TRIAL,),
        pools=pools or ("default",),
        devices=(DeviceGroup(accelerator=accelerator, count=count, memory_bytes=sheet.memory_bytes),),
        software={"python": platform.python_version()} | _software(),
    )


def _processors() -> DeviceGroup:
    """Ranks run one on each; the machine's memory is divided among them."""
    count = len(os.sched_getaffinity(0))
    return DeviceGroup(accelerator="cpu", count=count, memory_bytes=_memory_bytes() // count)


def _memory_bytes() -> int:
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = _CGROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdecimal() else machine


def _software() -> dict[str, str]:
    found = {}
    for name in _SOFTWARE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _accelerators(name: str | None) -> list[DeviceGroup]:
    if name is not None:
        library.load_accelerator(name)
    if not has_driver():
        if name is not None:
            raise ConfigurationError(
                f"this machine has no accelerator that {name} could be: leave --accelerator out"
            )
        return []
    command = [sys.executable, "-P", "-m", "executor.worker.accelerators", *([name] if name else [])]
    try:
        looked = subprocess.run(command, capture_output=True, text=True, timeout=_LOOK_S, check=True)
        told = json.loads(looked.stdout)
    except (subprocess.SubprocessError, OSError, ValueError) as error:
        said = str(getattr(error, "stderr", None) or error).strip()
        raise ConfigurationError(f"torch cannot look for accelerators: {said[-500:]}") from None
    if "error" in told:
        raise ConfigurationError(told["error"])
    return [DeviceGroup.model_validate(group) for group in told["devices"]]


def has_driver(devices: Path = Path("/dev")) -> bool:
    """Whether a device file or nvidia-smi says that it is worth to start torch and look."""
    files = (found for pattern in ("nvidia[0-9]*", "kfd", "dxg") for found in devices.glob(pattern))
    return next(files, None) is not None or shutil.which("nvidia-smi") is not None
