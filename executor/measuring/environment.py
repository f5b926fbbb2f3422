"""Which machine, driver, clocks and library versions is this?"""

import os
import platform
import re
import subprocess
from pathlib import Path

import torch
import transformers

from executor.errors import ConfigurationError
from profiles import library
from profiles.timings import Environment

_QUERY = ("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm")
_MEMORY_TOLERANCE = 0.15


def describe_environment(device: torch.device, *, threads: int) -> Environment:
    """What a profile says of where it was taken."""
    software = {"python": platform.python_version(), "torch": torch.__version__}
    software["transformers"] = transformers.__version__
    if device.type == "cuda":
        return _cuda(device, software)
    return Environment(
        device=_processor(),
        driver=f"{platform.system()} {platform.release()}"[:200],
        software=software,
        clocks_hz=_processor_clock(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=threads,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def describe_host(device: str, *, threads: int) -> Environment:
    """The same for a device by name, for callers that do not import torch."""
    return describe_environment(torch.device(device), threads=threads)


def accelerator_of(device: torch.device) -> str:
    """The name of the data sheet of a device; raises ConfigurationError where none is like it."""
    if device.type == "cpu":
        return "cpu"
    properties = torch.cuda.get_device_properties(device)
    words = re.sub(r"[^a-z0-9]+", " ", properties.name.lower()).split()
    fitting = []
    for name in library.names("devices"):
        *model, _size = name.split("-")
        memory = library.load_accelerator(name).memory_bytes
        apart = abs(memory - properties.total_memory) / memory
        if model and all(word in words for word in model) and apart <= _MEMORY_TOLERANCE:
            fitting.append((apart, name))
    if not fitting:
        raise ConfigurationError(
            f"no data sheet is like {properties.name!r} with {properties.total_memory:,} bytes: give its "
            "name with --accelerator (`chimera list accelerators`)"
        )
    return min(fitting)[1]


def has_cuda() -> bool:
    """Whether torch sees a CUDA device."""
    return torch.cuda.is_available()


def free_bytes(device: torch.device) -> int:
    """Memory that can still be taken on the device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + cached)
    text = Path("/proc/meminfo").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def _cuda(device: torch.device, software: dict[str, str]) -> Environment:
    properties = torch.cuda.get_device_properties(device)
    told = _ask_driver(device)
    software["cuda"] = str(torch.version.cuda)
    software["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    clocks = {key: float(told[key]) * 1e6 for key in _QUERY[1:] if told.get(key, "").isdecimal()}
    return Environment(
        device=properties.name,
        driver=told.get("driver_version"),
        software=software,
        clocks_hz={key: value for key, value in clocks.items() if value > 0},
        memory_bytes=properties.total_memory,
    )


def _ask_driver(device: torch.device) -> dict[str, str]:
    """What nvidia-smi says of the device, by its uuid; nothing where there is no nvidia-smi."""
    uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
    query = f"--query-gpu={','.join(_QUERY)}"
    command = ["nvidia-smi", f"--id={uuid}", query, "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in answer.strip().split(",")]
    return dict(zip(_QUERY, values, strict=False))


def _processor() -> str:
    found = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    return (found[1].strip() if found else platform.processor() or platform.machine() or "cpu")[:200]


def _processor_clock() -> dict[str, float]:
    found = re.search(r"^cpu MHz\s*:\s*([\d.]+)$", _cpuinfo(), re.MULTILINE)
    return {"clocks.cpu": float(found[1]) * 1e6} if found and float(found[1]) > 0 else {}


def _cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
