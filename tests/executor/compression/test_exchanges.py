"""Do replicas agree on the sum of what each has sent, is nothing lost, and do the bytes match the model?"""

import math
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from executor.compression.compressor import Compressor
from executor.compression.feedback import Unit
from executor.compression.wire import Wire
from tests.executor.processes import Ranks
from tuner.compression import NAMES, read_compression

SIZES = (1, 2, 37, 1000)
WITH_FEEDBACK = ("topk", "topk:0.3", "gaussiank:0.1", "powersgd:2")


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    """Four processes."""
    with Ranks(4) as ranks:
        yield ranks


def drawn(rank: int, size: int, step: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    """A rank's gradient of a step."""
    generator = torch.Generator().manual_seed(1000 * step + 10 * rank + size)
    return torch.randn(size, dtype=dtype, generator=generator)


def compressor_of(text: str) -> tuple[Compressor, Wire]:
    """A compressor that counts."""
    wire = Wire()
    return Compressor(read_compression(text), wire=wire, seed=3), wire


def exchange(compressor: Compressor, gradient: Tensor, rank: int, *, stepped: bool = True) -> Tensor:
    """One step of one buffer over all ranks."""
    unit = Unit((0, 0), 0, gradient, rank, dist.get_world_size())
    group = dist.group.WORLD
    if group is None:
        raise RuntimeError("there is no process group")
    pending = compressor.start(unit, group, length=len(gradient), scale=1.0)
    compressor.proceed()
    pending.wait()
    compressor.settle(stepped=stepped)
    return gradient


def sums(rank: int, world_size: int) -> dict[str, list[tuple[Tensor, int]]]:
    """What comes of every compression, and what it sent, for gradients of several sizes."""
    found: dict[str, list[tuple[Tensor, int]]] = {}
    for text in (*NAMES[1:], "topk:1", "powersgd:1"):
        for size in SIZES:
            compressor, wire = compressor_of(text)
            total = exchange(compressor, drawn(rank, size), rank)
            found.setdefault(text, []).append((total, wire.sent_bytes))
    return found


def test_all_replicas_get_one_sum_and_send_what_the_model_says(four: Ranks) -> None:
    """Bit by bit, but for a2sgd, whose mean over the replicas is near the sum; bytes exactly."""
    found = four.run(sums)
    for text in found[0]:
        how = read_compression(text)
        for number, size in enumerate(SIZES):
            totals = [ranks[text][number][0] for ranks in found]
            true = torch.stack([drawn(rank, size) for rank in range(4)]).sum(0)
            assert {ranks[text][number][1] for ranks in found} == {float(how.volume_bytes(size))}, text
            if how.name != "a2sgd":
                assert all(torch.equal(total, totals[0]) for total in totals), text
            if how.name == "a2sgd" and size == SIZES[-1]:
                mean = torch.stack(totals).mean(0)
                assert float((mean - true).norm() / true.norm()) < 0.1
            tolerance = {"fp16": 2e-3, "bf16": 2e-2, "topk:1": 1e-5}.get(text)
            if tolerance is not None:
                assert torch.allclose(totals[0], true, rtol=tolerance, atol=tolerance)


def started(rank: int, world_size: int) -> list[int]:
    """Collectives after starting two buffers and a small third one, after going on, and at the end."""
    compressor, wire = compressor_of("powersgd:1")
    group = dist.group.WORLD
    if group is None:
        raise RuntimeError("there is no process group")
    found, pending = [], []
    for number, size in enumerate((1000, 90, 2)):
        unit = Unit((number, 0), 0, drawn(rank, size), rank, world_size)
        pending.append(compressor.start(unit, group, length=size, scale=1.0))
    found.append(wire.collectives)
    compressor.proceed()
    found.append(wire.collectives)
    for each in pending:
        each.wait()
    return [*found, wire.collectives]


def test_the_second_collectives_start_before_the_first_of_them_is_waited_for(four: Ranks) -> None:
    """So links carry one buffer's while another's is made; where gradients are few there is none."""
    assert four.run(started) == [[3, 5, 5]] * 4


def two_means_by_hand(rank: int, world_size: int) -> tuple[Tensor, Tensor]:
    """A2SGD as the paper has it, on gradients that are averaged, beside ours on their shares."""
    whole = drawn(rank, 300)
    mine = exchange(compressor_of("a2sgd")[0], whole / world_size, rank)
    positive = whole >= 0
    own = torch.stack([whole[positive].mean(), whole[~positive].mean()])
    mean = own.clone()
    dist.all_reduce(mean)
    mean /= world_size
    error = whole - torch.where(positive, own[0], own[1])
    return mine, error + torch.where(positive, mean[0], mean[1])


def test_two_means_are_averaged_as_the_paper_has_it(four: Ranks) -> None:
    """ĝ = ε + μ̄₊ on P and ε + μ̄₋ on N, each replica with its own signs."""
    for mine, expected in four.run(two_means_by_hand):
        assert torch.allclose(mine, expected, atol=1e-6)


def fed_back(rank: int, world_size: int, text: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """What arrived in five steps, what is left, and all gradients of this rank, one step skipped."""
    compressor, _ = compressor_of(text)
    arrived, given = torch.zeros(90, dtype=dtype), torch.zeros(90, dtype=dtype)
    for step in range(6):
        gradient = drawn(rank, 90, step, dtype)
        stepped = step != 2
        total = exchange(compressor, gradient.clone(), rank, stepped=stepped)
        if stepped:
            arrived += total
            given += gradient
    return arrived, compressor.feedback.residuals[0, 0], given


@pytest.mark.parametrize("text", WITH_FEEDBACK)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_arrived_and_what_is_owed_are_all_that_was_given(
    four: Ranks, text: str, dtype: torch.dtype
) -> None:
    """Summed over replicas and steps; a skipped step gives nothing and owes nothing."""
    found = four.run(fed_back, text, dtype)
    given = sum(part[2] for part in found)
    owed = sum(part[1] for part in found)
    tolerance = 1e-4 if dtype == torch.float32 or text.startswith("powersgd") else 1e-12
    assert torch.allclose(found[0][0] + owed, given, atol=tolerance)
    assert float(owed.abs().max()) > 0.1


def not_finite(rank: int, world_size: int, text: str, odd: float) -> tuple[bool, bool]:
    """Whether the sum is finite where one replica's gradient is not, and whether the residual stays."""
    compressor, _ = compressor_of(text)
    exchange(compressor, drawn(rank, 50), rank)
    before = compressor.feedback.residuals.get((0, 0), torch.zeros(1)).clone()
    gradient = drawn(rank, 50, 1)
    if rank == 1:
        gradient[7] = odd
    total = exchange(compressor, gradient, rank)
    after = compressor.feedback.residuals.get((0, 0), torch.zeros(1))
    return bool(torch.isfinite(total).all()), torch.equal(before, after)


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_one_replica_that_is_not_finite_is_seen_by_all_and_leaves_no_trace(four: Ranks, odd: float) -> None:
    """The sum is not finite anywhere, and the residual stays what it was."""
    for text in (*NAMES[1:], "powersgd:1"):
        assert four.run(not_finite, text, odd) == [(False, True)] * 4, text


def torch_hook(rank: int, world_size: int) -> bool:
    """Whether a gradient is that of torch's own hook under DistributedDataParallel, bit by bit."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    torch.manual_seed(0)
    model, alone = nn.Linear(13, 7), nn.Linear(13, 7)
    alone.load_state_dict(model.state_dict())
    parallel = nn.parallel.DistributedDataParallel(model)
    parallel.register_comm_hook(None, fp16_compress_hook)
    parallel(drawn(rank, 13)).square().sum().backward()
    (alone(drawn(rank, 13)).square().sum() / world_size).backward()
    mine, theirs = (
        torch.cat([one.grad.reshape(-1) for one in each.parameters() if one.grad is not None])
        for each in (alone, model)
    )
    return torch.allclose(exchange(compressor_of("fp16")[0], mine, rank), theirs, rtol=2**-9, atol=1e-4)


@pytest.mark.long
def test_fp16_is_that_of_torchs_own_hook(four: Ranks) -> None:
    """To the rounding of the order in which a ring sums; torch's bf16 hook wants NCCL."""
    assert four.run(torch_hook) == [True] * 4


def emulated(rank: int, world_size: int) -> float:
    """Seconds of an all-reduce of 4 MB over a link of 100 MB/s."""
    import time

    group = dist.group.WORLD
    if group is None:
        raise RuntimeError("there is no process group")
    start_s = time.monotonic()
    Wire(bytes_per_s=1e8).all_reduce(torch.zeros(10**6), group).wait()
    return time.monotonic() - start_s


def test_a_slow_link_is_as_slow_as_a_ring_would_be(four: Ranks) -> None:
    """2·(r−1)/r·L over the bandwidth, at least."""
    assert all(seconds >= 0.06 for seconds in four.run(emulated))
