"""What does compressing take, part by part, where ranks meet instead of waiting for links?"""

import statistics
import time
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from executor.compression.compressor import Compressor
from executor.compression.feedback import Unit
from executor.compression.wire import Wire
from executor.measuring.link_rounds import timed, values_of
from executor.measuring.links import COLLECTIVES, Operation
from tuner.compression import read_compression

LATENCY_BUDGET_S = 0.1
FEW_BYTES = 4


class Silent(Wire):
    """Carries nothing: what is left of an iteration without transport."""

    def all_reduce(self, tensor: Tensor, process_group: dist.ProcessGroup) -> Any:  # noqa: ARG002
        """The tensor stays as it is."""
        return _Done()

    def all_gather(self, whole: Tensor, own: Tensor, process_group: dist.ProcessGroup) -> Any:
        """Everyone seems to have sent the same."""
        whole.view(process_group.size(), -1).copy_(own)
        return _Done()


class _Done:
    def wait(self) -> None:
        """Nothing to wait for."""


class Meeting(Silent):
    """Carries nothing; where a rank would wait for a collective all meet, and what came before is timed."""

    def __init__(self) -> None:
        super().__init__()
        self.parts_s: list[float] = []
        self._since_s = 0.0

    def begin(self) -> None:
        """Meet, and start the clock."""
        dist.barrier()
        self._since_s = time.perf_counter()

    def all_reduce(self, tensor: Tensor, process_group: dist.ProcessGroup) -> Any:
        """What is waited for is this."""
        super().all_reduce(tensor, process_group)
        return self

    def all_gather(self, whole: Tensor, own: Tensor, process_group: dist.ProcessGroup) -> Any:
        """What is waited for is this."""
        super().all_gather(whole, own, process_group)
        return self

    def wait(self) -> None:
        """A part has ended."""
        self.parts_s.append(time.perf_counter() - self._since_s)
        self.begin()


class Compressing(NamedTuple):
    """What is measured."""

    how: str
    elements: int
    steps: int


def compress(rank: int, world_size: int, what: Compressing) -> list[list[float]]:
    """Of every step the seconds before, between and after the collectives of so many gradients."""
    how, elements, steps = what
    if how == "none":
        return [[0.0]] * steps
    wire, taken = Meeting(), []
    compressor = Compressor(read_compression(how), wire=wire)
    gradient = torch.randn(elements, generator=torch.Generator().manual_seed(rank))
    group = dist.group.WORLD
    for _ in range(steps if group is not None else 0):
        unit = Unit((0, 0), 0, gradient.clone(), rank, world_size)
        wire.parts_s = []
        wire.begin()
        pending = compressor.start(unit, group, length=elements, scale=1.0)  # type: ignore[arg-type]
        compressor.proceed()
        pending.wait()
        compressor.settle(stepped=True)
        wire.wait()
        taken.append(wire.parts_s)
    return taken


def wake(_rank: int, world_size: int, operation: Operation) -> float:
    """Seconds of a collective of a few bytes."""
    group = dist.group.WORLD
    if group is None:
        return 0.0
    rounds = COLLECTIVES[operation](values_of(FEW_BYTES, world_size), group=group)
    return statistics.median(timed(rounds, group=group, budget_s=LATENCY_BUDGET_S))
