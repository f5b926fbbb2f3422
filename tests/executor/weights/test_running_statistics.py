"""Are buffers that replicas change on their own merged by the documented rule, and others left alone?"""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from executor.weights.groups import ParameterGroups
from executor.weights.holdings import HeldStage
from executor.weights.running_statistics import RunningStatistics
from tests.executor.by_hand import Case
from tests.executor.processes import Ranks

LOWEST = torch.finfo(torch.float32).min


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    """Four processes."""
    with Ranks(4) as ranks:
        yield ranks


class Constants(nn.Module):
    """Buffers that no forward changes, some of which do not survive an average."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("lowest", torch.tensor([LOWEST, float("-inf"), 0.1]))
        self.register_buffer("mask", torch.tensor([True, False]))


def merged(rank: int, world_size: int, batches: list[int], touch: bool) -> dict[str, Tensor]:
    """Buffers of a normalisation after each replica has run so many batches, on 3 of 4 processes."""
    program = Case(schedule="gpipe", depth=1, width=3).program()
    groups = ParameterGroups(program.placement, ranks=[[0], [1], [2]])
    if rank == 3:
        return {}
    layers = nn.ModuleList([nn.BatchNorm1d(2), Constants()])
    held = [HeldStage(0, 0, layers, 0)]
    statistics = RunningStatistics(held, groups=groups, replicas=3)
    for number in range(batches[rank]):
        layers[0](torch.full((4, 2), float(rank + number)))
    if touch and rank == 1:
        layers[1].lowest.copy_(layers[1].lowest.clone())  # type: ignore[union-attr,operator]
    statistics.merge()
    statistics.merge()
    return {name: buffer.clone() for name, buffer in held[0].buffers()}


@pytest.mark.parametrize("touch", [False, True])
def test_statistics_are_averaged_and_counters_become_the_largest(four: Ranks, touch: bool) -> None:
    """Over all replicas, also the one without a batch; a second merge changes nothing."""
    plain = [alone(rank, count) for rank, count in enumerate([2, 0, 3])]
    parts = four.run(merged, [2, 0, 3], touch)[:3]
    for part in parts:
        assert part["layers.0.num_batches_tracked"].item() == 3
        for name in ("running_mean", "running_var"):
            expected = torch.stack([one.get_buffer(name) for one in plain]).mean(dim=0)
            assert torch.allclose(part[f"layers.0.{name}"], expected, rtol=1e-6, atol=1e-7)
            assert torch.equal(part[f"layers.0.{name}"], parts[0][f"layers.0.{name}"])


@pytest.mark.parametrize("touch", [False, True])
def test_constants_stay_bit_for_bit(four: Ranks, touch: bool) -> None:
    """The lowest number, infinity and a tenth, whether or not somebody wrote the same values into them."""
    for part in four.run(merged, [1, 1, 1], touch)[:3]:
        assert torch.equal(part["layers.1.lowest"], torch.tensor([LOWEST, float("-inf"), 0.1]))
        assert part["layers.1.mask"].tolist() == [True, False]


def alone(rank: int, batches: int) -> nn.BatchNorm1d:
    """What one replica has before the merge."""
    layer = nn.BatchNorm1d(2)
    for number in range(batches):
        layer(torch.full((4, 2), float(rank + number)))
    return layer


def test_two_replicas_on_one_process_are_merged_without_a_group() -> None:
    """And a value that was loaded into both is not averaged with what was there."""
    program = Case(schedule="gpipe", depth=1).program()
    groups = ParameterGroups(program.placement, ranks=[[0]])
    held = [HeldStage(pipe, 0, nn.ModuleList([nn.BatchNorm1d(2)]), 0) for pipe in range(2)]
    statistics = RunningStatistics(held, groups=groups, replicas=2)
    held[0].layers[0](torch.full((4, 2), 3.0))
    statistics.merge()
    for one in held:
        assert torch.allclose(one.layers[0].get_buffer("running_mean"), torch.full((2,), 0.15))
        one.layers[0].get_buffer("running_mean").fill_(0.7)
    statistics.restart()
    statistics.merge()
    assert torch.equal(held[0].layers[0].get_buffer("running_mean"), torch.full((2,), 0.7))
