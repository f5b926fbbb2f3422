"""What does a step send and reduce, and what does a pipeline leave open?"""

import gc
import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from executor.running.assembly import Settings
from executor.running.pipeline import Pipeline
from tests.executor.equivalence import mini_batches
from tests.executor.processes import Ranks
from tests.executor.running import nets
from tests.executor.running.layouts import layout, made
from tuner.configuration import Configuration


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


def sent(rank: int, world_size: int, configuration: Configuration, layers: Any) -> int:
    """Messages of this rank in a step."""
    pipeline = made(configuration, layers=layers())
    pipeline.train(mini_batches(1), report=False)
    return messages(pipeline)


@pytest.mark.parametrize("schedule", ["dapple", "zb_h1"])
def test_a_gradient_that_nobody_needs_is_not_sent(four: Ranks, schedule: str) -> None:
    """None comes back to a first stage that is frozen, and none at all where everything is."""
    configuration = layout(schedule, 1, 4, 4)
    assert four.run(sent, configuration, nets.frozen_first) == [4, 4, 8, 4]
    assert four.run(sent, configuration, nets.frozen) == [4, 4, 4, 0]


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


def left_open(rank: int, world_size: int, configuration: Configuration) -> list[tuple[int, int]]:
    """Threads and open files of this process after each of some pipelines."""
    own, found = Path("/proc/self"), []
    gc.collect()  # what other tests left open, and hold in a circle, goes first
    for _ in range(4):
        pipeline = made(configuration)
        pipeline.step(*mini_batches(1)[0])
        pipeline.close()
        dist.barrier()
        found.append(
            (sum(1 for _ in own.joinpath("task").iterdir()), sum(1 for _ in own.joinpath("fd").iterdir()))
        )
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("width", [1, 2])
def test_a_closed_pipeline_leaves_no_thread_and_no_connection(four: Ranks, width: int) -> None:
    """So that many may follow each other in one process."""
    for found in four.run(left_open, layout("chimera", width, 4 // width, 4)):
        for counts in zip(*found, strict=True):  # a connection of the last one may be on its way out
            assert max(counts) - min(counts) <= 2
