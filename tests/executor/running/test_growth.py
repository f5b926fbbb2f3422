"""Does a rank's memory stay what it is, whatever the number of iterations and of micro-batches?"""

import gc
import weakref
from ctypes import CDLL
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from executor.models.loss import mean_squared_error
from executor.running.pipeline import Pipeline
from executor.values import Batch
from tests.executor.processes import Ranks
from tests.executor.running.layouts import adam, layout
from tuner.schedules.generators import program_of
from tuner.schedules.program import Kind

WIDTH, SAMPLES = 128, 64
WARM_UP, PARTS, ITERATIONS = 20, 4, 50
ALLOWANCE_BYTES = ITERATIONS * SAMPLES * WIDTH * 4 // 2
"""Half of what a part of the iterations would add if each kept one boundary tensor."""


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Bytes of the storages that were made inside and are still alive, and the most there were at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._sizes: dict[int, int] = {}
        self._made = 0
        self.now = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and count what it made."""
        given = func(*args, **(kwargs or {}))
        known = set(_storages((args, kwargs)))
        for number, storage in _storages(given).items():
            if number not in known:
                self._count(storage)
        return given

    def _count(self, storage: torch.UntypedStorage) -> None:
        self._made += 1
        self._sizes[self._made] = storage.nbytes()
        self.now += storage.nbytes()
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, self._made)

    def _forget(self, number: int) -> None:
        self.now -= self._sizes.pop(number)


def _storages(values: Any) -> dict[int, torch.UntypedStorage]:
    found = [leaf.untyped_storage() for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]
    return {storage._cdata: storage for storage in found}


def pipeline_of(schedule: str, depth: int, micro_batches: int) -> Pipeline:
    """Two layers for each rank, each keeping its input and one activation of its size."""
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(2 * depth)]
    configuration = layout(schedule, 1, depth, micro_batches)
    return Pipeline(layers, mean_squared_error(), configuration, optimizer=adam)


def mini_batch(micro_batches: int) -> Batch:
    """Samples of as many micro-batches of one size."""
    shape = (SAMPLES * micro_batches, WIDTH)
    return torch.ones(shape), torch.zeros(shape)


def peaks(rank: int, world_size: int, cases: list[tuple[str, int]]) -> list[int]:
    """Bytes of tensors that a second iteration has alive at its fullest, in every case."""
    found = []
    for schedule, micro_batches in cases:
        pipeline, batch = pipeline_of(schedule, world_size, micro_batches), mini_batch(micro_batches)
        pipeline.step(*batch)
        with LiveBytes() as live:
            pipeline.step(*batch)
        found.append(live.peak)
    return found


def alive(schedule: str, micro_batches: int) -> list[int]:
    """Micro-batches of which each rank of four keeps something at its fullest, by the schedule."""
    fullest = []
    for steps in program_of(layout(schedule, 1, 4, micro_batches)).ranks:
        kept = most = 0
        for op in (op for step in steps for op in step):
            kept += 1 if op.kind == Kind.F else -1
            most = max(most, kept)
        fullest.append(most)
    return fullest


@pytest.mark.parametrize("schedule", ["dapple", "chimera"])
def test_peak_memory_does_not_grow_with_the_number_of_micro_batches(four: Ranks, schedule: str) -> None:
    """From 4 to 64 the bytes of all tensors grow by less than 1 %; those of GPipe, which keeps all, do."""
    assert alive(schedule, 4) == alive(schedule, 64)
    ranks = four.run(peaks, [(schedule, 4), (schedule, 64), ("gpipe", 16)])
    for few, many, of_gpipe in ranks:
        assert many == pytest.approx(few, rel=0.01)
        assert of_gpipe > 1.3 * few


def growth(rank: int, world_size: int, schedule: str) -> list[tuple[int, int, int]]:
    """What each part of the iterations adds to live tensors, objects of Python and the resident set."""
    pipeline, batch = pipeline_of(schedule, world_size, world_size), mini_batch(world_size)
    for _ in range(WARM_UP):
        pipeline.step(*batch)
    counts = [_counts()]
    for _ in range(PARTS):
        for _ in range(ITERATIONS):
            pipeline.step(*batch)
        counts.append(_counts())
    return [
        (after[0] - before[0], after[1] - before[1], after[2] - before[2])
        for before, after in pairwise(counts)
    ]


def _counts() -> tuple[int, int, int]:
    gc.collect()
    CDLL(None).malloc_trim(0)  # what is free goes back, so that what is resident is in use
    found = gc.get_objects()
    tensors = _storages([one for one in found if issubclass(type(one), Tensor)])
    resident = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096
    return sum(storage.nbytes() for storage in tensors.values()), len(found), resident


@pytest.mark.parametrize("schedule", ["dapple", "chimera"])
def test_two_hundred_iterations_do_not_grow_in_memory(four: Ranks, schedule: str) -> None:
    """Nothing is left of an iteration: no tensor ever, and nothing else in one part of them after the other.

    Caches and an allocator's arenas grow now and then until they are filled, a leak grows all the time.
    """
    for parts in four.run(growth, schedule):
        tensors, objects, resident = (sorted(each) for each in zip(*parts, strict=True))
        assert set(tensors) == {0}
        assert objects[PARTS // 2 - 1] < ITERATIONS, objects
        assert resident[PARTS // 2 - 1] < ALLOWANCE_BYTES, resident
