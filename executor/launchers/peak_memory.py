"""How much memory does this rank take, and how is it kept from taking more?

On a CPU: the resident memory of the process without pages of files, from /proc: code that is loaded on its
first use does not count. Its peak is set back by /proc/self/clear_refs, and what the process used before the
model was built (Python, torch) is told apart as the baseline. On CUDA: torch's allocator, whose peak is set
back too; the context of the driver is not in it.
"""

from __future__ import annotations

import ctypes
import gc
import re
import resource
from contextlib import suppress
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
        self.begin()

    def begin(self) -> None:
        """Take the baseline: call it where all is loaded that a run needs, and no weights are there yet."""
        self.free()
        self.baseline_bytes = 0 if self._cuda else _kilobytes("RssAnon")

    def free(self) -> None:
        """Give what is not used any more back to the system, so that it is not taken for the run's."""
        gc.collect()
        with suppress(AttributeError):  # other C libraries than glibc
            ctypes.CDLL(None).malloc_trim(0)

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
            # Pages of files are only ever added, so that those of now were not more at the peak.
            peak = _kilobytes("VmHWM") - _kilobytes("RssFile") - _kilobytes("RssShmem")
            peak = max(peak, _kilobytes("RssAnon"))
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
