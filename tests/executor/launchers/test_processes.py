"""Does the harness give every rank's result, and the first failure?"""

import os
import signal

import pytest
import torch
import torch.distributed as dist

from tests.executor.processes import Ranks, RanksFailedError, run_ranks


def test_every_rank_gives_its_result_in_order_of_rank() -> None:
    """Ranks share one gloo group, and tensors come back by value."""
    results = run_ranks(2, _total, 10)
    assert [result.item() for result in results] == [21.0, 21.0]


def test_ranks_are_kept_from_call_to_call_and_new_after_a_failure() -> None:
    """The same processes run every function until one fails."""
    with Ranks(2) as ranks:
        first = ranks.run(_process)
        assert ranks.run(_process) == first
        with pytest.raises(RanksFailedError, match=r"(?s)rank 1 failed first.*no more"):
            ranks.run(_fail_on, 1)
        assert not set(ranks.run(_process)) & set(first)


def test_a_rank_that_dies_is_named_ahead_of_those_that_lost_their_connection() -> None:
    """The cause stands first, whichever rank reports first."""
    with pytest.raises(RanksFailedError) as caught:
        run_ranks(2, _die_on, 1)
    assert caught.value.first == 1
    assert caught.value.failures[1] == f"died by signal {int(signal.SIGKILL)}"


def test_a_rank_that_waits_for_ever_ends_at_the_timeout() -> None:
    """The watchdog kills everything and says which ranks gave no answer."""
    with pytest.raises(RanksFailedError) as caught:
        run_ranks(2, _receive_nothing, timeout=5)
    assert 0 in caught.value.failures


def _total(rank: int, world_size: int, number: int) -> torch.Tensor:
    value = torch.full((1,), float(rank + number))
    dist.all_reduce(value)
    return value


def _process(rank: int, world_size: int) -> int:
    return os.getpid()


def _fail_on(rank: int, world_size: int, failing: int) -> None:
    if rank == failing:
        raise ValueError("no more")
    dist.barrier()


def _die_on(rank: int, world_size: int, dying: int) -> None:
    if rank == dying:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()


def _receive_nothing(rank: int, world_size: int) -> None:
    if rank == 0:
        dist.recv(torch.empty(1), 1)
