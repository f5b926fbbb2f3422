"""Are exceptions of ranks understood: no memory with the bytes, a lost peer, or a fault of their own?"""

import numpy as np
import pytest
import torch

from executor.launchers.failure import Meaning, meaning_of, report_of, requested_bytes

CUDA = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 139.81 GiB in all, of which 1.00 GiB is free."
)


def raised(by: object) -> BaseException:
    """The exception of a call."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        by()  # type: ignore[operator]
    return caught.value


def test_torchs_own_words_for_no_memory_are_understood() -> None:
    """An exabyte is asked of the allocator of this machine."""
    report = report_of(raised(lambda: torch.empty(1 << 60, dtype=torch.uint8)))
    assert (report["meaning"], report["bytes"]) == ("out_of_memory", 1 << 60)
    assert "Traceback" in report["trace"]


def test_numpys_are_too() -> None:
    """It tells binary units."""
    report = report_of(raised(lambda: np.ones(1 << 57, dtype=np.uint8)))
    assert (report["meaning"], report["bytes"]) == ("out_of_memory", 1 << 57)


def test_a_devices_are_too() -> None:
    """torch.cuda.OutOfMemoryError is an OutOfMemoryError everywhere."""
    assert meaning_of(torch.OutOfMemoryError(CUDA)) == Meaning.OUT_OF_MEMORY
    assert requested_bytes(CUDA) == round(2.5 * 2**30)


def test_an_error_that_wraps_one_means_the_same() -> None:
    """The cause has the bytes."""

    def wrap() -> None:
        try:
            raise MemoryError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 77 bytes.")
        except MemoryError as error:
            raise ValueError("stage 3 failed") from error

    report = report_of(raised(wrap))
    assert (report["meaning"], report["bytes"], report["exception"]) == ("out_of_memory", 77, "ValueError")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(
            "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:9"
        ),
        RuntimeError("Connection reset by peer"),
        ConnectionResetError(104, "reset"),
        torch.distributed.DistNetworkError("The client socket has failed to connect: Connection refused"),
    ],
)
def test_a_broken_connection_means_a_lost_peer(error: Exception) -> None:
    """It is a consequence."""
    assert meaning_of(error) == Meaning.PEER_LOST


@pytest.mark.parametrize("error", [ValueError("Connection closed by peer"), RuntimeError("shapes differ")])
def test_anything_else_is_a_fault_of_the_ranks_own(error: Exception) -> None:
    """Only errors of the run time tell of connections."""
    assert meaning_of(error) == Meaning.ERROR
