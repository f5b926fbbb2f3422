"""Does a rank learn the shapes that will come, exactly?"""

from collections.abc import Iterator

import pytest
import torch

from executor.errors import ConfigurationError, ModelError
from executor.transport import receive_header, send_header
from executor.transport.headers import _DTYPES
from executor.values import Spec
from tests.executor.processes import Ranks, RanksFailedError
from tests.executor.transport.walking import ACTIVATION

EVERY_DTYPE = tuple(Spec((3, 0, 2)[: n % 4], dtype, n % 2 == 0) for n, dtype in enumerate(_DTYPES))
HEADERS = ((), ACTIVATION, EVERY_DTYPE, (Spec((1,) * 30, torch.float32, True),) * 40)


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    """Two ranks that run case after case."""
    with Ranks(2) as ranks:
        yield ranks


def test_headers_arrive_as_they_were_sent(two: Ranks) -> None:
    """Any number of tensors, dimensions and dtypes, one after another."""
    assert two.run(_tell_in_order)[1] == list(HEADERS)


def test_headers_of_other_numbers_may_be_read_in_another_order(two: Ranks) -> None:
    """Two cuts between the same ranks do not get each other's shapes."""
    assert two.run(_tell_by_number)[1] == [HEADERS[1], HEADERS[2]]


def test_a_dtype_that_cannot_travel_is_named(two: Ranks) -> None:
    """Before anything is sent."""
    two.run(_tell_what_cannot_travel)


def test_a_sender_that_died_is_named(two: Ranks) -> None:
    """The receiver says which header did not come, and from whom."""
    with pytest.raises(RanksFailedError) as caught:
        two.run(_listen_to_the_dead)
    assert "TransportError: the header 3 from global rank 0: did not get through" in caught.value.failures[1]


def _tell_in_order(rank: int, world_size: int) -> list[tuple[Spec, ...]]:
    if rank == 1:
        return [receive_header(source=0) for _ in HEADERS]
    for specs in HEADERS:
        send_header(specs, target=1)
    return []


def _tell_by_number(rank: int, world_size: int) -> list[tuple[Spec, ...]]:
    """Rank 0 starts both sends before rank 1 reads the first that it asks for."""
    if rank == 1:
        second = receive_header(source=0, number=7)
        return [receive_header(source=0, number=0), second]
    send_header(HEADERS[2], target=1, number=7)
    send_header(HEADERS[1], target=1, number=0)
    return []


def _tell_what_cannot_travel(rank: int, world_size: int) -> None:
    if rank == 0:
        with pytest.raises(ModelError, match=r"tensor 0 of 1 .*quint8"):
            send_header((Spec((2,), torch.quint8, False),), target=1)
        with pytest.raises(ConfigurationError, match="numbers go from 0 to"):
            send_header((), target=1, number=-1)


def _listen_to_the_dead(rank: int, world_size: int) -> None:
    if rank == 0:
        raise ValueError("no header from here")
    receive_header(source=0, number=3)
