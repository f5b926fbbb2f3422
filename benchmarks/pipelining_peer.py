"""How fast does the executor run the same pipeline as torch.distributed.pipelining?

    .venv/bin/python -P benchmarks/pipelining_peer.py [RUNS]

D=2, N=8, GPipe and 1F1B, on stages that sleep and on a small real model, both on the same two processes in
turns: a run of ours, a run of the peer's, and so on. Each run is the median of several mini-batches, forward,
backward and optimizer step. Limits: a median ratio (ours over the peer's) of 1.00 emulated and 1.03 real.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import pipelining

from executor.models.loss import mean_squared_error
from executor.running.pipeline import Pipeline
from executor.trials.emulation import sharpen_sleep, sleep
from tests.executor.processes import run_ranks
from tuner.configuration import Configuration

DEPTH, MICRO_BATCHES, STEPS = 2, 8, 5
FORWARD_S, BACKWARD_S = 0.01, 0.02
WIDTH, LAYERS, SAMPLES = 256, 8, 64


class Sleep(torch.autograd.Function):
    """Takes its time both ways."""

    @staticmethod
    def forward(_ctx: Any, value: Tensor, weight: Tensor) -> Tensor:
        sleep(FORWARD_S)
        return value * weight

    @staticmethod
    def backward(_ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        sleep(BACKWARD_S)
        return gradients[0], None


class Sleeper(nn.Module):
    """A stage that sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, value: Tensor) -> Tensor:
        return Sleep.apply(value, self.weight)


def main() -> None:
    """Print a row for each schedule and kind of work."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print(f"D={DEPTH} N={MICRO_BATCHES}, {runs} alternated runs of {STEPS} mini-batches; median ms and ratio")
    print(f"{'':22}{'ours':>10}{'peer':>10}{'ratio':>10}{'ideal':>10}")
    for kind, ideal_s in (
        ("emulated", (MICRO_BATCHES + DEPTH - 1) * (FORWARD_S + BACKWARD_S)),
        ("real", None),
    ):
        for schedule in ("gpipe", "dapple"):
            pairs = run_ranks(DEPTH, compare, (kind, schedule, runs), timeout=600.0)[0]
            ours, peers = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = statistics.median(our / peer for our, peer in pairs)
            ideal = f"{ideal_s * 1e3:10.1f}" if ideal_s else f"{'':>10}"
            print(f"{kind} {schedule:12}{ours * 1e3:>11.1f}{peers * 1e3:10.1f}{ratio:10.3f}{ideal}")


def compare(rank: int, _world_size: int, case: tuple[str, str, int]) -> list[tuple[float, float]]:
    """(ours, the peer's) seconds of an iteration in every run; `case` is kind, schedule and runs."""
    kind, schedule, runs = case
    sharpen_sleep()
    ours, peers = ours_of(kind, schedule), peers_of(kind, schedule, rank)
    for step in (ours, peers):
        step()
    return [(time_steps(ours), time_steps(peers)) for _ in range(runs)]


def time_steps(step: Callable[[], None]) -> float:
    """Median seconds of a step, the slower rank counting."""
    times = []
    for _ in range(STEPS):
        dist.barrier()
        start_s = time.perf_counter()
        step()
        length = torch.tensor([time.perf_counter() - start_s])
        dist.all_reduce(length, dist.ReduceOp.MAX)
        times.append(length.item())
    return statistics.median(times)


def layers_of(kind: str) -> list[nn.Module]:
    """The whole model as layers."""
    torch.manual_seed(0)
    if kind == "emulated":
        return [Sleeper() for _ in range(DEPTH)]
    return [
        nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        for _ in range(LAYERS)
    ]


def batch() -> tuple[Tensor, Tensor]:
    """Inputs and targets of a mini-batch."""
    torch.manual_seed(1)
    return torch.randn(SAMPLES * MICRO_BATCHES, WIDTH), torch.randn(SAMPLES * MICRO_BATCHES, WIDTH)


def ours_of(kind: str, schedule: str) -> Callable[[], None]:
    """A step of the executor."""
    pipeline = Pipeline(
        layers_of(kind),
        mean_squared_error(),
        Configuration(schedule, 1, DEPTH, SAMPLES, MICRO_BATCHES),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    )
    inputs, targets = batch()

    def step() -> None:
        pipeline.train([(inputs, targets)], report=False)

    return step


def peers_of(kind: str, schedule: str, rank: int) -> Callable[[], None]:
    """The same step of torch.distributed.pipelining."""
    layers = layers_of(kind)
    share = len(layers) // DEPTH
    module = nn.Sequential(*layers[rank * share : (rank + 1) * share])
    stage = pipelining.PipelineStage(module, rank, DEPTH, torch.device("cpu"))
    make = pipelining.ScheduleGPipe if schedule == "gpipe" else pipelining.Schedule1F1B
    runner = make(stage, MICRO_BATCHES, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
    inputs, targets = batch()

    def step() -> None:
        optimizer.zero_grad()
        runner.step(inputs) if rank == 0 else runner.step(target=targets, losses=[])
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
