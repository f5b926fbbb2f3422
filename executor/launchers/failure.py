"""What does an exception in a rank mean: no memory, a peer that is gone, or a fault of its own?

Only the exception's type and text are used, so that this answers without importing torch.
"""

from __future__ import annotations

import re
import traceback
from enum import StrEnum
from time import monotonic_ns
from typing import Any

_LONGEST_MESSAGE = 4_000
_LONGEST_TRACE = 12_000


class Meaning(StrEnum):
    """What an exception says about the run."""

    OUT_OF_MEMORY = "out_of_memory"
    PEER_LOST = "peer_lost"
    """Another rank is gone: a consequence, hardly ever the cause."""
    ERROR = "error"


_NO_MEMORY = re.compile(
    r"DefaultCPUAllocator: (can't allocate|not enough) memory|std::bad_alloc|bad allocation"
    r"|CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|Cannot allocate memory"
)
_CPU_BYTES = re.compile(r"tried to allocate (\d+) bytes")
_CUDA_BYTES = re.compile(r"Tried to allocate ([\d.]+) ([KMGTPE]?i?B|bytes)")
_NUMPY_BYTES = re.compile(r"Unable to allocate ([\d.]+) ([KMGTPE]?i?B|bytes)")
_UNITS = {
    "B": 1,
    "bytes": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "PiB": 2**50,
    "EiB": 2**60,
}
_PEER_LOST = re.compile(
    r"Connection (closed by peer|reset by peer|refused)|Broken pipe|Connection was likely closed"
    r"|gloo/transport|remote process exited|NCCL.*(remote|peer)|Socket Timeout|Timed out waiting \d+ms"
    r"|store->get|Failed to recv|connectFullMesh|recvValue|sendBytes|TCPStore",
    re.IGNORECASE,
)


def meaning_of(error: BaseException) -> Meaning:
    """What an exception says; its causes are looked at too, since errors are often wrapped."""
    chain = _chain(error)
    if any(isinstance(link, MemoryError) or _is_out_of_memory(link) for link in chain):
        return Meaning.OUT_OF_MEMORY
    if any(_is_peer_lost(link) for link in chain):
        return Meaning.PEER_LOST
    return Meaning.ERROR


def requested_bytes(message: str) -> int | None:
    """The bytes that could not be allocated, from torch's or numpy's words; None if they are not told."""
    if found := _CPU_BYTES.search(message):
        return int(found[1])
    found = _CUDA_BYTES.search(message) or _NUMPY_BYTES.search(message)
    return round(float(found[1]) * _UNITS[found[2]]) if found and found[2] in _UNITS else None


def report_of(error: BaseException) -> dict[str, Any]:
    """What a rank leaves for whoever watches it."""
    told = next((text for link in _chain(error) if requested_bytes(text := str(link))), str(error))
    return {
        "at_ns": monotonic_ns(),
        "meaning": str(meaning_of(error)),
        "exception": type(error).__name__,
        "message": str(error)[:_LONGEST_MESSAGE],
        "bytes": requested_bytes(told),
        "trace": "".join(traceback.format_exception(error))[-_LONGEST_TRACE:],
    }


def _chain(error: BaseException) -> list[BaseException]:
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in links:
        links.append(link)
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return links


def _is_out_of_memory(error: BaseException) -> bool:
    return type(error).__name__ == "OutOfMemoryError" or bool(_NO_MEMORY.search(str(error)))


def _is_peer_lost(error: BaseException) -> bool:
    if isinstance(error, ConnectionError):
        return True
    return isinstance(error, RuntimeError) and bool(_PEER_LOST.search(str(error)))
