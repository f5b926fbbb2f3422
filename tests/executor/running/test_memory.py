"""What does a step keep alive, and is anything left of it?"""

import gc
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from tests.executor.equivalence import DOUBLE, WIDTH, mini_batches
from tests.executor.processes import Ranks
from tests.executor.running.layouts import SYNCHRONOUS, layout, made
from tests.executor.stages.test_stage_memory import Watch
from tuner.configuration import Configuration
from tuner.schedules.generators import program_of
from tuner.schedules.program import Kind

NAMES = tuple(name for name in SYNCHRONOUS if name != "dualpipe")


class Counting(Watch):
    """Also remembers how many inputs were alive at most."""

    most = 0

    def forward(self, x: Tensor) -> Tensor:
        """[B, h] -> [B, h]."""
        given = super().forward(x)
        self.most = max(self.most, self.alive)
        return given


def counting(layers: int) -> list[nn.Module]:
    """A watched tensor in each."""
    torch.manual_seed(0)
    return [
        nn.Sequential(Counting(), nn.Linear(WIDTH, WIDTH, dtype=DOUBLE), Counting()) for _ in range(layers)
    ]


Alive = tuple[tuple[int, int], int, int, int]
"""(pipe, stage), tensors alive at most, those after the step, and hooks on inputs that fired."""


def alive(rank: int, world_size: int, configuration: Configuration) -> list[Alive]:
    """Of each stage here, with the collector off."""
    gc.collect()
    gc.disable()
    try:
        pipeline = made(configuration, layers=counting(configuration.stages))
        for batch in mini_batches(3):
            pipeline.step(*batch)
        found = []
        for one in pipeline._assembly.held:
            block: Any = one.layers[0]
            boundary, within = block[0], block[2]
            found.append(((one.pipe, one.stage), within.most, within.alive, boundary.hooked))
            assert pipeline._assembly.stages[one.pipe, one.stage].live.passages == 0
        return found
    finally:
        gc.enable()


def predicted(configuration: Configuration, until: frozenset[Kind]) -> dict[tuple[int, int], tuple[int, int]]:
    """Micro-batches of each stage that are alive at most until such an operation, and in all."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for rank in program_of(configuration).ranks:
        now: dict[tuple[int, int], int] = {}
        for op in (op for step in rank for op in step):
            place = (op.pipe, op.stage)
            most, total = found.get(place, (0, 0))
            if op.kind == Kind.F:
                now[place] = now.get(place, 0) + 1
                found[place] = (max(most, now[place]), total + 1)
            elif op.kind in until:
                now[place] -= 1
    return found


@pytest.mark.parametrize("schedule", NAMES)
def test_tensors_live_as_long_as_the_schedule_says_and_no_longer(four: Ranks, schedule: str) -> None:
    """Of a stage with a split backward until one of its halves; hooks fire once for each micro-batch."""
    configuration = layout(schedule, 1, 4, 8)
    least = predicted(configuration, frozenset({Kind.B, Kind.I}))
    most = predicted(configuration, frozenset({Kind.B, Kind.W}))
    for rank in four.run(alive, configuration):
        for place, found, left, hooked in rank:
            assert least[place][0] <= found <= most[place][0]
            assert (left, hooked) == (0, 3 * most[place][1] if place[1] else 0)


class Living(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Bytes of the tensors that operations gave and that are alive."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        self._alive: dict[int, tuple[Any, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = func(*args, **(kwargs or {}))
        for tensor in given if isinstance(given, tuple | list) else (given,):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
                self._alive[storage._cdata] = (reference, storage.nbytes())
        self._alive = {key: one for key, one in self._alive.items() if not one[0].expired()}
        self.most = max(self.most, sum(size for _, size in self._alive.values()))
        return given


def most_bytes(rank: int, world_size: int, schedule: str, counts: list[int]) -> list[int]:
    """Of a second step with micro-batches of 512 samples, which are all one tensor's."""
    found = []
    for micro_batches in counts:
        samples = torch.ones(1, WIDTH, dtype=DOUBLE).expand(512 * micro_batches, -1)
        pipeline = made(layout(schedule, 1, world_size, micro_batches))
        pipeline.step(samples, samples)
        with Living() as living:
            pipeline.step(samples, samples)
        found.append(living.most)
    return found


def test_memory_does_not_grow_with_the_number_of_micro_batches(two: Ranks) -> None:
    """1F1B: 4, 16 and 64 of them need the same to 1 %; GPipe, where all are alive, does not."""
    for four, sixteen, many in two.run(most_bytes, "dapple", [4, 16, 64]):
        assert abs(many - four) <= 0.01 * four
        assert abs(many - sixteen) <= 0.01 * four
    for four, many in two.run(most_bytes, "gpipe", [4, 64]):
        assert many > 8 * four
