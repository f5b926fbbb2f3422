"""Do pipelines train with compressed gradients, and go on from a checkpoint in another layout?"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from executor.errors import ConfigurationError
from executor.models.loss import mean_squared_error
from executor.running.assembly import Assembly, Settings
from executor.running.pipeline import Pipeline
from executor.running.training import Training
from executor.weights import checkpoint
from tests.executor.equivalence import mini_batches, net, sgd
from tests.executor.processes import Ranks
from tests.executor.running.layouts import layout
from tuner.compression import NAMES, read_compression
from tuner.configuration import Configuration
from tuner.errors import TunerError
from tuner.schedules.generators import RECIPES

CHIMERA = Configuration("chimera", width=2, depth=2, micro_batch_size=12, micro_batches=4)
REPLICAS = Configuration("gpipe", width=4, depth=1, micro_batch_size=12, micro_batches=2)
TWO = Configuration("dapple", width=2, depth=2, micro_batch_size=12, micro_batches=4)
NAMES_OF_NET = {f"layers.{layer}.0.{name}" for layer in range(8) for name in ("weight", "bias")}


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    """Four processes."""
    with Ranks(4) as ranks:
        yield ranks


def trained(
    rank: int, world_size: int, configuration: Configuration, text: str, more: dict[str, Any]
) -> tuple[list[float], int, int, float]:
    """Losses of four steps, bytes that were sent and that should be, how far weights are from their mean."""
    settings = Settings(compression=text, **more)
    assembly = Assembly(net(), mean_squared_error(), configuration, optimizer=sgd, settings=settings)
    training = Training(assembly)
    losses = [loss for batch in mini_batches(1) * 4 for loss in training.losses(training.run([batch]))]
    expected, apart, how = 0, 0.0, read_compression(text)
    for number, state in sorted(assembly.weights.groups.items()):
        group = assembly.groups.process_group(number)
        if group is None:
            continue
        flat = state.flats[0]
        pieces = [flat.layout.bucket(bucket) for bucket in range(1 if text == "a2sgd" else state.buckets)]
        ends = [flat.layout.used if text == "a2sgd" else min(p.stop, flat.layout.used) for p in pieces]
        lengths = [end - piece.start for end, piece in zip(ends, pieces, strict=True)]
        expected += 4 * int(sum(how.volume_bytes(length, 8) for length in lengths))
        for leaf in state.leaves.values():
            mean = leaf.detach().clone()
            dist.all_reduce(mean, group=group)
            apart = max(apart, float((mean / group.size() - leaf.detach()).abs().max()))
    sent = assembly.synchronizer.wire.sent_bytes
    assembly.close()
    return losses, sent, expected, apart


@pytest.mark.parametrize("configuration", [CHIMERA, REPLICAS], ids=["chimera", "replicas"])
def test_every_compression_trains_a_pipeline(four: Ranks, configuration: Configuration) -> None:
    """The loss falls, replicas stay equal but for a2sgd, and every rank sends what the model says."""
    plain = four.run(trained, configuration, "none", {"buckets": 2})
    for text in (*NAMES, "topk:1"):
        found = four.run(trained, configuration, text, {"buckets": 2, "clip_norm": 5.0})
        for losses, sent, expected, apart in found:
            assert sent == expected, text
            assert losses == found[0][0]
            assert losses[-1] < losses[0], text
            assert (apart > 0) == (text == "a2sgd"), text
            if text in {"fp16", "bf16", "topk:1"}:
                assert losses == pytest.approx(plain[0][0], rel=1e-3)


SCHEMES = [layout(name, 2, 2, 4) for name in sorted(RECIPES) if RECIPES[name].synchronous]
PAIRS = Configuration("chimera", 1, 4, 1, 4, pipe_pairs=2)
"""Four replicas of every stage, each on a rank of its own."""


def compressed(rank: int, world_size: int, configurations: list[Configuration]) -> list[float]:
    """How far the losses with all gradients sent as indices and values are from those without compression."""
    found = []
    for configuration in configurations:
        plain, sparse = (trained(rank, world_size, configuration, text, {}) for text in ("none", "topk:1"))
        found.append(max(abs(one - other) for one, other in zip(plain[0], sparse[0], strict=True)))
        found[-1] += float(plain[1] != plain[2]) + float(sparse[1] != sparse[2])
    return found


def test_every_synchronous_scheme_sums_what_was_sent(four: Ranks) -> None:
    """Over all replicas of a stage, of which Chimera has 2f for each pipeline group."""
    for apart in four.run(compressed, [*SCHEMES, PAIRS]):
        assert max(apart) < 1e-6


def test_sharded_optimizers_take_casts(four: Ranks) -> None:
    """And the losses are near those without compression."""
    sharded = {"optimizer_sharding": "replicas", "buckets": 2}
    plain = four.run(trained, CHIMERA, "none", sharded)[0][0]
    for text in ("fp16", "bf16"):
        assert four.run(trained, CHIMERA, text, sharded)[0][0] == pytest.approx(plain, rel=1e-3)


def averaged(rank: int, world_size: int) -> list[float]:
    """How far a2sgd's weights are from their mean after each of four steps, averaged every second."""
    settings = Settings(compression="a2sgd:2")
    assembly = Assembly(net(), mean_squared_error(), REPLICAS, optimizer=sgd, settings=settings)
    training = Training(assembly)
    apart = []
    for batch in mini_batches(4):
        training.run([batch])
        leaf = next(iter(assembly.weights.groups[0].leaves.values())).detach()
        mean = leaf.clone()
        dist.all_reduce(mean)
        apart.append(float((mean / world_size - leaf).abs().max()))
    assembly.close()
    return apart


def test_replicas_that_drift_come_together_at_every_average(four: Ranks) -> None:
    """After the second and the fourth step, and not in between."""
    for odd, even, again_odd, again_even in four.run(averaged):
        assert min(odd, again_odd) > 0
        assert max(even, again_even) < 1e-12


def interrupted(
    rank: int, world_size: int, text: str, path: Path, later: Configuration
) -> tuple[list[float], list[float], dict[str, Any]]:
    """Losses of steps 3 and 4 without a stop and after a checkpoint, and that checkpoint."""
    first, second = mini_batches(4)[:2], mini_batches(4)[2:]
    pipeline = Pipeline(
        net(), mean_squared_error(), CHIMERA, optimizer=sgd, settings=Settings(compression=text)
    )
    for batch in first:
        pipeline.step(*batch)
    pipeline.save(path)
    straight = [pipeline.step(*batch) for batch in second]
    pipeline.close()
    other = Pipeline(net(), mean_squared_error(), later, optimizer=sgd, settings=Settings(compression=text))
    other.load(path)
    resumed = [other.step(*batch) for batch in second]
    again = path.with_suffix(".again")
    other.load(path)
    other.save(again)
    other.close()
    return straight, resumed, checkpoint.load(again)["compression"] if rank == 0 else {}


@pytest.mark.parametrize("text", ["topk:0.1", "gaussiank:0.1", "qsgd", "powersgd:1"])
def test_a_training_goes_on_as_if_it_had_not_stopped(four: Ranks, text: str, tmp_path: Path) -> None:
    """Residuals, factors and the random numbers' step come back, bit by bit."""
    for straight, resumed, _ in four.run(interrupted, text, tmp_path / "a.pt", CHIMERA):
        assert straight == resumed


@pytest.mark.parametrize("later", [REPLICAS, TWO], ids=["more stages apart", "as many replicas elsewhere"])
def test_what_is_owed_moves_with_its_parameters(four: Ranks, later: Configuration, tmp_path: Path) -> None:
    """In another layout every parameter owes the same sum as before; other residuals are shared out."""
    found = four.run(interrupted, "topk:0.1", tmp_path / "a.pt", later)
    before, after = checkpoint.load(tmp_path / "a.pt")["compression"], found[0][2]
    assert set(before["residuals"]) == set(after["residuals"]) == NAMES_OF_NET
    for name, residual in before["residuals"].items():
        assert float(residual.abs().max()) > 0
        assert torch.allclose(residual.sum(0), after["residuals"][name].sum(0), atol=1e-12)


REFUSED = [
    (replace(CHIMERA, schedule="pipedream", depth=4, width=1), {"compression": "topk"}, "different times"),
    (CHIMERA, {"compression": "qsgd", "optimizer_sharding": "replicas"}, "reduce-scatter"),
    (CHIMERA, {"compression": "zip"}, "not modelled"),
    (CHIMERA, {"compression": "topk:2"}, "no value of topk"),
]


def refused(rank: int, world_size: int) -> list[str]:
    """What is said to each."""
    said = []
    for configuration, more, _ in REFUSED:
        try:
            Pipeline(net(), mean_squared_error(), configuration, optimizer=sgd, settings=Settings(**more))
        except (ConfigurationError, TunerError) as error:
            said.append(str(error))
    return said


def test_what_cannot_be_compressed_is_refused_with_what_to_do(four: Ranks) -> None:
    """On every rank, before anything is sent."""
    for said in four.run(refused):
        assert len(said) == len(REFUSED)
        assert all(words in text for text, (_, _, words) in zip(said, REFUSED, strict=True))
