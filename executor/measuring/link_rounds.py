"""How long do a message and a collective take? Rounds between the processes of one group.

A message goes to and fro over the transport that runs use, its receive posted ahead, and its one-way time is
half of a round: sending, carrying, and waking up who waits. The clocks of two machines are never compared.
"""

import time
from collections.abc import Callable, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from executor.transport.channels import MAX_TENSORS, Channels, Key, Route
from executor.transport.gloo import GlooTransport
from executor.values import Spec
from executor.weights.scattering import gather_pieces, scatter_sum
from tuner.schedules.messages import Message

WARM_UPS = 4
LEAST_ROUNDS = 9
MOST_ROUNDS = 400

_ELEMENT_BYTES = 4

Rounds = Callable[[int], list[float]]
"""Seconds of each of so many rounds."""


class PingPong:
    """Messages of several sizes between the two members of a group."""

    def __init__(self, sizes_bytes: Sequence[int], *, group: dist.ProcessGroup) -> None:
        self._first = dist.get_rank(group) == 0
        self._values = [torch.ones(-(-size // _ELEMENT_BYTES)) for size in sizes_bytes]
        peer = 1 if self._first else 0
        keys = [self._key(forward, number) for forward in (True, False) for number in range(len(sizes_bytes))]
        routes = {
            key: Route(peer, number * MAX_TENSORS, f"message {number} of the measurement")
            for number, key in enumerate(keys)
        }
        self._transport = GlooTransport(Channels(routes), group=group)
        self._transport.expect(
            {key: (Spec(tuple(self._values[key[3]].shape), torch.float32, False),) for key in keys}
        )
        self._round = 0

    def rounds(self, number: int) -> Rounds:
        """One-way seconds of messages of one of the sizes."""
        return lambda count: self._lead(number, count) if self._first else self._follow(number, count)

    def _lead(self, number: int, count: int) -> list[float]:
        taken = []
        for _ in range(count):
            self._round += 1
            ping, pong = self._message(True, number), self._message(False, number)
            start = time.perf_counter()
            self._transport.exchange([(ping, (self._values[number],))], [pong])
            self._transport.wait(pong)
            taken.append((time.perf_counter() - start) / 2)
            self._transport.release([ping])
        return taken

    def _follow(self, number: int, count: int) -> list[float]:
        self._round += 1
        self._transport.exchange([], [self._message(True, number)])
        for left in range(count - 1, -1, -1):
            ping, pong = self._message(True, number), self._message(False, number)
            self._transport.wait(ping)
            if left:
                self._round += 1
            ahead = [self._message(True, number)] if left else []
            self._transport.exchange([(pong, (self._values[number],))], ahead)
        self._transport.finish()
        return []

    def _message(self, forward: bool, number: int) -> Message:
        return Message(*self._key(forward, number), self._round)

    @staticmethod
    def _key(forward: bool, number: int) -> Key:
        return (forward, 0, 0, number, 0)


def all_reduce(values: Tensor, *, group: dist.ProcessGroup) -> Rounds:
    """Seconds of summing `values` [n] over the group, as runs do."""
    return _repeated(lambda: dist.all_reduce(values, group=group, async_op=True))


def reduce_scatter(values: Tensor, *, group: dist.ProcessGroup) -> Rounds:
    """Seconds of summing `values` [members · n], each member getting its piece."""
    return _repeated(lambda: scatter_sum(values, _own(values, group), process_group=group))


def all_gather(values: Tensor, *, group: dist.ProcessGroup) -> Rounds:
    """Seconds of filling `values` [members · n] with every member's piece."""
    return _repeated(lambda: gather_pieces(values, _own(values, group), process_group=group))


def timed(rounds: Rounds, *, group: dist.ProcessGroup, budget_s: float) -> list[float]:
    """Seconds of rounds after warm-up, as many as the first member finds room for in `budget_s`."""
    start = time.perf_counter()
    rounds(WARM_UPS)
    dist.barrier(group)
    each_s = (time.perf_counter() - start) / WARM_UPS
    count = torch.tensor([min(MOST_ROUNDS, max(LEAST_ROUNDS, int(budget_s / each_s)))])
    dist.broadcast(count, group_src=0, group=group)
    return rounds(int(count.item()))


def values_of(size_bytes: int, members: int) -> Tensor:
    """Zeros of so many bytes or a few more, in pieces for all members; sums of them stay what they are."""
    pieces = -(-size_bytes // (_ELEMENT_BYTES * members))
    return torch.zeros(pieces * members)


def _repeated(start: Callable[[], dist.Work | None]) -> Rounds:
    def rounds(count: int) -> list[float]:
        taken = []
        for _ in range(count):
            begun = time.perf_counter()
            work = start()
            if work is not None:
                work.wait()
            taken.append(time.perf_counter() - begun)
        return taken

    return rounds


def _own(values: Tensor, group: dist.ProcessGroup) -> Tensor:
    size = len(values) // dist.get_world_size(group)
    member = dist.get_rank(group)
    return values[member * size : (member + 1) * size]
