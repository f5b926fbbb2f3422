"""How much memory does this rank take, and how is it kept from taking more?

On a CPU: the resident set of the process, from /proc. Its peak is set back by /proc/self/clear_refs, and what
the process used before the model was built (Python, torch) is told apart as the baseline. On CUDA: torch's
allocator, whose peak is set back too; the context of the driver is not in it.
"""

from __future__ import annotations

import re
import resource
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
_CLEAR_PEAK = "5"


@dataclass(frozen=True)
class PeakMemory:
    """Bytes of one rank."""

    peak_bytes: int
    """Of the timed iterations, baseline included."""
    baseline_bytes: int
    """Before the model was built."""
    reserved_bytes: int
    """What the allocator held from the device at most; on a CPU the same as peak_bytes."""

    @property
    def used_bytes(self) -> int:
        """What the run itself took: the peak above the baseline."""
        return max(0, self.peak_bytes - self.baseline_bytes)

    def document(self) -> dict[str, Any]:
        """JSON keys."""
        return asdict(self) | {"used_bytes": self.used_bytes}


class MemoryMeter:
    """Meters this process, from before the model is built."""

    def __init__(self, device: str = "cpu") -> None:
        self._cuda = device.startswith("cuda")
        self.baseline_bytes = 0 if self._cuda else _kilobytes("VmRSS")

    def restart(self) -> None:
        """Forget the peak: call it where the timed iterations begin."""
        if self._cuda:
            import torch

            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        else:
            _CLEAR_REFS.write_text(_CLEAR_PEAK, encoding="ascii")

    def read(self) -> PeakMemory:
        """The peak since the restart."""
        if not self._cuda:
            peak = _kilobytes("VmHWM")
            return PeakMemory(peak, self.baseline_bytes, peak)
        import torch

        return PeakMemory(
            torch.cuda.max_memory_allocated(), self.baseline_bytes, torch.cuda.max_memory_reserved()
        )


def limit_memory(limit_bytes: int, *, device: str = "cpu") -> None:
    """Let this process take so much more than it has now; an allocation beyond it fails as out of memory.

    CPU: RLIMIT_DATA, which counts private writable memory as it is mapped, touched or not, and the stacks
    of threads. CUDA: a share of the device's memory for torch's allocator.
    """
    if device.startswith("cuda"):
        import torch

        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit_bytes / total))
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _kilobytes("VmData") + limit_bytes
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _kilobytes(name: str) -> int:
    """A line of /proc/self/status, in bytes."""
    found = re.search(
        rf"^{name}:\s+(\d+) kB", _STATUS.read_text(encoding="ascii", errors="replace"), re.MULTILINE
    )
    return int(found[1]) * 1024 if found else 0
