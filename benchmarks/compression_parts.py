"""What does an iteration take, part by part, where ranks meet instead of waiting for links?

All ranks are processes of one machine, and its monotonic clock is theirs together: something has taken from
when the first of them began until the last one ended. A rank that has to wait for a processor begins late.
"""

import statistics
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch.distributed as dist
from torch import Tensor

from executor.compression.wire import Wire
from executor.measuring.link_rounds import timed, values_of
from executor.measuring.links import COLLECTIVES, Operation

LATENCY_BUDGET_S = 0.1
FEW_BYTES = 4


Span = tuple[float, float]
"""When a rank began and ended something, on the monotonic clock."""


class Meeting(Wire):
    """Carries when it is waited for, by all ranks together, and times what they do between."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Span] = []
        self._since_s = 0.0
        self._carrier = Wire()

    def restart(self) -> None:
        """The first part of an iteration begins."""
        self.parts = []
        self.begin()

    def begin(self) -> None:
        """Meet, and start the clock."""
        dist.barrier()
        self._since_s = time.monotonic()

    def end(self) -> None:
        """A part has ended."""
        self.parts.append((self._since_s, time.monotonic()))

    def all_reduce(self, tensor: Tensor, process_group: dist.ProcessGroup) -> Any:
        """Later."""
        return _Later(self, lambda: self._carrier.all_reduce(tensor, process_group))

    def all_gather(self, whole: Tensor, own: Tensor, process_group: dist.ProcessGroup) -> Any:
        """Later."""
        return _Later(self, lambda: self._carrier.all_gather(whole, own, process_group))


class _Later:
    def __init__(self, meeting: Meeting, carry: Callable[[], Any]) -> None:
        self._meeting, self._carry = meeting, carry

    def wait(self) -> None:
        """What has been done until now is one part, what follows the next."""
        self._meeting.end()
        self._carry().wait()
        self._meeting.begin()


def wake(_rank: int, world_size: int, operation: Operation) -> float:
    """Seconds of a collective of a few bytes."""
    group = dist.group.WORLD
    if group is None:
        return 0.0
    rounds = COLLECTIVES[operation](values_of(FEW_BYTES, world_size), group=group)
    return statistics.median(timed(rounds, group=group, budget_s=LATENCY_BUDGET_S))


def lasted_s(ranks: Iterable[Span]) -> float:
    """From when the first rank began until the last one ended."""
    begun, ended = zip(*ranks, strict=True)
    return float(max(ended) - min(begun))
