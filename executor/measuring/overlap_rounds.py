"""What do messages and collectives take beside computation, and what does computation lose to them?

Rounds between the processes of one group, all of which compute as ranks do. How long the computation takes
alone is measured beside every round, since it changes with the clock of the processor and what else runs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.functional import gelu

from executor.transport.channels import MAX_TENSORS, Channels, Key, Route
from executor.transport.gloo import GlooTransport
from executor.values import Spec
from tuner.schedules.messages import Message

OPERATION_STEPS = 30
"""Steps of computation between two messages: some milliseconds, as an operation of a stage takes."""
LEAST_ROUNDS, MOST_ROUNDS = 5, 40
_ROWS, _WIDTH = 64, 256
_ALONE_STEPS = 60
_MOST_STEPS = 20_000
"""After so many a collective is awaited without computing: its peers have stopped."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class Rounds:
    """What some rounds found, in seconds."""

    alone_s: tuple[float, ...]
    """The computation of a round without communication, or one collective."""
    beside_s: tuple[float, ...]
    """The same computation with it, or two collectives."""
    lasted_s: tuple[float, ...] = ()
    """How long each collective was under way."""


class Computation:
    """Work as layers do it: products with a matrix, and a function of every element."""

    def __init__(self) -> None:
        self._values = torch.ones(_ROWS, _WIDTH)
        self._weights = torch.full((_WIDTH, _WIDTH), 1 / _WIDTH)

    def run(self, steps: int) -> float:
        """Seconds of so many steps."""
        start = time.perf_counter()
        values = self._values  # [rows, width]
        for _ in range(steps):
            values = gelu(values @ self._weights)
        return time.perf_counter() - start


def beside_collectives(values: Tensor, *, group: dist.ProcessGroup, budget_s: float) -> Rounds:
    """Sums of `values` [n] over the group, beside which every member computes until they have ended."""
    work = Computation()

    def one_round() -> tuple[float, float, float]:
        alone_s = work.run(_ALONE_STEPS) / _ALONE_STEPS
        dist.barrier(group)
        start, steps = time.perf_counter(), 0
        summing = dist.all_reduce(values, group=group, async_op=True)
        while not summing.is_completed() and steps < _MOST_STEPS:
            work.run(1)
            steps += 1
        lasted_s = time.perf_counter() - start
        summing.wait()
        return steps * alone_s, lasted_s, lasted_s

    return Rounds(*zip(*_repeated(one_round, group=group, budget_s=budget_s), strict=True))


def two_collectives(values: Tensor, *, group: dist.ProcessGroup, budget_s: float) -> Rounds:
    """A sum of `values` [n] over the group, and beside it a second one; nobody computes."""
    others = values.clone()

    def sum_up(*summed: Tensor) -> float:
        dist.barrier(group)
        start = time.perf_counter()
        started = [dist.all_reduce(one, group=group, async_op=True) for one in summed]
        for work in started:
            work.wait()
        return time.perf_counter() - start

    def one_round() -> tuple[float, float]:
        return sum_up(values), sum_up(values, others)

    return Rounds(*zip(*_repeated(one_round, group=group, budget_s=budget_s), strict=True))


class Exchange:
    """Messages of one size that two processes send to each other while they compute.

    Over two groups of the same two, one for each direction, as runs do.
    """

    def __init__(self, size_bytes: int, *, group: dist.ProcessGroup, upward: dist.ProcessGroup) -> None:
        self._group = group
        first = dist.get_rank(group) == 0
        self._values = torch.ones(-(-size_bytes // 4))
        keys: list[Key] = [(forward, 0, 0, 0, 0) for forward in (True, False)]
        self._mine, self._theirs = keys if first else keys[::-1]
        routes = {
            key: Route(1 if first else 0, number * MAX_TENSORS, "a message of the measurement", not key[0])
            for number, key in enumerate(keys)
        }
        self._transport = GlooTransport(Channels(routes), group=group, upward=upward)
        spec = Spec(tuple(self._values.shape), torch.float32, False)
        self._transport.expect(dict.fromkeys(keys, (spec,)))
        self._work = Computation()
        self._round = 0

    def exposed(self, budget_s: float) -> Rounds:
        """Messages that leave when an operation ends, and that the next one waits for."""
        return self._measured(self._wait_after_computing, budget_s)

    def hidden(self, budget_s: float) -> Rounds:
        """Messages that leave when an operation begins, and that are needed when it has ended."""
        return self._measured(self._wait_after_sending, budget_s)

    def _measured(self, message: Callable[[], None], budget_s: float) -> Rounds:
        def one_round() -> tuple[float, float]:
            alone_s = self._work.run(OPERATION_STEPS)
            self._round += 1
            self._transport.exchange([], [Message(*self._theirs, self._round)])
            dist.barrier(self._group)  # both begin together, and receives are posted ahead as in runs
            start = time.perf_counter()
            message()
            beside_s = time.perf_counter() - start
            self._transport.finish()
            return alone_s, beside_s

        return Rounds(*zip(*_repeated(one_round, group=self._group, budget_s=budget_s), strict=True))

    def _wait_after_computing(self) -> None:
        self._work.run(OPERATION_STEPS)
        self._send()
        self._transport.wait(Message(*self._theirs, self._round))

    def _wait_after_sending(self) -> None:
        self._send()
        self._work.run(OPERATION_STEPS)
        self._transport.wait(Message(*self._theirs, self._round))

    def _send(self) -> None:
        self._transport.exchange([(Message(*self._mine, self._round), (self._values,))], [])


def _repeated(one_round: Callable[[], Found], *, group: dist.ProcessGroup, budget_s: float) -> list[Found]:
    """As many rounds as the first member finds room for in `budget_s`, after one to warm up."""
    start = time.perf_counter()
    one_round()
    each_s = time.perf_counter() - start
    count = torch.tensor([min(MOST_ROUNDS, max(LEAST_ROUNDS, int(budget_s / each_s)))])
    dist.broadcast(count, group_src=0, group=group)
    return [one_round() for _ in range(int(count.item()))]
