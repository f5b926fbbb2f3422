"""What does a step send, reduce and keep, and is anything left of it?"""

import gc
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from executor.models.loss import mean_squared_error
from executor.running.assembly import Settings
from executor.running.pipeline import Pipeline
from tests.executor.equivalence import DOUBLE, WIDTH, mini_batches, net, sgd
from tests.executor.processes import Ranks
from tests.executor.running.layouts import SYNCHRONOUS, layout
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


def made(
    configuration: Configuration, settings: Settings | None = None, layers: list[nn.Module] | None = None
) -> Pipeline:
    """A pipeline of the usual blocks."""
    blocks = net() if layers is None else layers
    return Pipeline(blocks, mean_squared_error(), configuration, optimizer=sgd, settings=settings)


def messages(pipeline: Pipeline) -> int:
    """What this rank has sent since its program was made."""
    track, _ = pipeline._training._track(1, update=True)
    return track.transport.counters.messages


def traffic(
    rank: int, world_size: int, configuration: Configuration, settings: Settings
) -> tuple[int, int, dict[str, int]]:
    """Messages and collectives of the second of two steps, and the collectives that were called."""
    pipeline = made(configuration, settings)
    called: dict[str, int] = {}
    real: dict[str, Callable[..., Any]] = {}

    def counted(name: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            called[name] = called.get(name, 0) + 1
            return real[name](*args, **options)

        return call

    batches = mini_batches(2)
    pipeline.train(batches[:1], report=False)
    before = messages(pipeline), pipeline._assembly.synchronizer.started
    names = [name for name in dir(dist) if name.startswith(("all_reduce", "reduce_scatter", "all_gather"))]
    for name in names:
        real[name] = getattr(dist, name)
        setattr(dist, name, counted(name))
    try:
        pipeline.train(batches[1:], report=False)
    finally:
        for name in names:
            setattr(dist, name, real[name])
    return messages(pipeline) - before[0], pipeline._assembly.synchronizer.started - before[1], called


@pytest.mark.parametrize("schedule", ["gpipe", "zb_h1", "zb_v", "interleaved"])
def test_what_stays_on_a_rank_is_not_sent(one: Ranks, two: Ranks, schedule: str) -> None:
    """On one rank nothing is; on two, an activation and a gradient for each cut between them."""
    ((sent, started, _),) = one.run(traffic, layout(schedule, 1, 1, 4), Settings())
    assert (sent, started) == (0, 0)
    crossings = {"interleaved": 3, "zb_v": 2}.get(schedule, 1)
    for sent, started, _ in two.run(traffic, layout(schedule, 1, 2, 4), Settings()):
        assert (sent, started) == (4 * crossings, 0)


@pytest.mark.parametrize(
    ("configuration", "stages"),
    [
        (layout("dapple", 2, 2, 8), 1),
        (layout("gpipe", 4, 1, 3), 1),
        (layout("chimera", 1, 4, 16), 2),
        (layout("chimera", 1, 4, 4, pipe_pairs=2), 4),
        (layout("interleaved", 2, 2, 4), 2),
        (layout("zb_v", 2, 2, 8), 2),
    ],
)
@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize("policy", ["lazy", "eager", "eager_opt"])
def test_a_bucket_of_a_stage_is_reduced_once_a_step(
    four: Ranks, configuration: Configuration, stages: int, buckets: int, policy: Any
) -> None:
    """However many micro-batches there are, K = 4 rounds of Chimera among them, and nothing else is."""
    settings = Settings(sync_policy=policy, buckets=buckets)
    for _, started, called in four.run(traffic, configuration, settings):
        assert started == stages * buckets
        assert called == {"all_reduce": stages * buckets}


def many_steps(rank: int, world_size: int, schedule: str, policy: Any, count: int) -> tuple[int, float]:
    """Threads of Python, and the last loss, after many steps."""
    pipeline = made(layout(schedule, 1, world_size, 4), Settings(sync_policy=policy))
    batch = mini_batches(1)[0]
    losses = [pipeline.step(*batch) for _ in range(count)]
    assert all(later < earlier for earlier, later in pairwise(losses))
    return threading.active_count(), losses[-1]


@pytest.mark.parametrize("schedule", ["dapple", "chimera"])
def test_two_hundred_steps_do_not_hang(four: Ranks, schedule: str) -> None:
    """Collectives of two stages meet messages in flight; the runtime has no thread of its own."""
    found = four.run(many_steps, schedule, "eager", 200, timeout=120.0)
    assert {threads for threads, _ in found} == {1}
    assert len({loss for _, loss in found}) == 1


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
