"""What do compressed gradients do to the loss, to the bytes, and to the time of an iteration on slow links?

    .venv/bin/python -P benchmarks/compression.py [STEPS [SEEDS]]     300 steps, 3 seeds; 0 steps: links alone

W=4, D=1 in four processes, on a multilayer perceptron (momentum) and on an LSTM that reads this file (Adam).
The loss is the mean of the last tenth of the steps and of all seeds, beside that of no compression. Limits:
qsgd and a2sgd within 3 %, topk (1 %) within 10 %; what is beyond is told. Bytes are those that a rank gives
to collectives.

Then a perceptron of 2.1 million weights over links of 100 MB/s, which collectives are held to: the speed-up
over no compression, measured beside what the model says: what the iterations take in these processes before,
between and after their collectives, each part until the last rank has done it, for there they wait for each
other; and every collective as the model has it, with the model's volume and the latency that `chimera links`
would measure here. All of it is run in turn, so that what else the machine does is shared. Limit: 10 %.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from benchmarks.compression_parts import Meeting, Span, lasted_s, wake
from executor.compression.compressor import Compressor
from executor.measuring.links import Operation
from executor.models.loss import cross_entropy
from executor.running.assembly import Assembly, Settings
from executor.running.training import Training
from executor.values import Batch
from profiles.cluster import formula_factors
from tests.executor.processes import Ranks
from tests.tuner.factories import make_cluster
from tuner.compression import NAMES, read_compression
from tuner.configuration import Configuration
from tuner.network import Network

WIDTH, SAMPLES = 4, 64
LINK_BYTES_PER_S = 1e8
TIMED_STEPS, UNTIMED_STEPS = 40, 2
HOWS = (*NAMES, "a2sgd:10")
LIMITS = {"qsgd": 0.03, "a2sgd": 0.03, "topk": 0.10}
SPEED_UP_LIMIT = 0.10
LETTERS, CONTEXT = 128, 16
SMALL, LARGE = 64, 1024


class Last(nn.Module):
    """An LSTM without its state: [B, S, h] -> [B, S, h]."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, hidden, batch_first=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """All hidden states."""
        hidden: Tensor = self.lstm(inputs)[0]
        return hidden


class Task(NamedTuple):
    """A model with its data."""

    layers: Callable[[int], list[nn.Module]]
    batch: Callable[[int], Batch]
    optimizer: Callable[[Any], torch.optim.Optimizer]


def perceptron(seed: int, size: int = SMALL) -> list[nn.Module]:
    """[B, 32] -> [B, 10]."""
    torch.manual_seed(seed)
    return [
        nn.Sequential(nn.Linear(32, size), nn.ReLU()),
        nn.Sequential(nn.Linear(size, size), nn.ReLU()),
        nn.Sequential(nn.Linear(size, size), nn.ReLU()),
        nn.Linear(size, 10),
    ]


def labelled(seed: int) -> Batch:
    """Samples labelled by a perceptron that is not trained."""
    teacher = nn.Sequential(*perceptron(12345))
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(SAMPLES, 32, generator=generator)
    with torch.no_grad():
        return inputs, (teacher(inputs) * 20).argmax(1)


def reader(seed: int) -> list[nn.Module]:
    """Letters [B, S] -> logits [B, S, 128]."""
    torch.manual_seed(seed)
    return [nn.Embedding(LETTERS, 32), Last(32, 64), nn.Linear(64, LETTERS)]


def text(seed: int) -> Batch:
    """Pieces of this file, and what follows each of their letters."""
    letters = torch.frombuffer(bytearray(Path(__file__).read_bytes()), dtype=torch.uint8).long() % LETTERS
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(letters) - CONTEXT - 1, (SAMPLES,), generator=generator)
    windows = torch.stack([letters[start : start + CONTEXT + 1] for start in starts.tolist()])
    return windows[:, :-1], windows[:, 1:]


TASKS = {
    "perceptron": Task(perceptron, labelled, lambda weights: torch.optim.SGD(weights, lr=0.05, momentum=0.9)),
    "lstm": Task(reader, text, lambda weights: torch.optim.Adam(weights, lr=5e-3)),
}


def assembled(task: Task, seed: int, **settings: Any) -> Assembly:
    """Four replicas of a model."""
    configuration = Configuration("gpipe", WIDTH, 1, SAMPLES // WIDTH, 1)
    return Assembly(
        task.layers(seed),
        cross_entropy(),
        configuration,
        optimizer=task.optimizer,
        settings=Settings(seed=seed, **settings),
    )


class Lesson(NamedTuple):
    """What is learnt in one run."""

    task: str
    how: str
    seed: int
    steps: int


def learn(_rank: int, _world_size: int, lesson: Lesson) -> tuple[float, float, float]:
    """Final loss, bytes a step, seconds of a step."""
    name, how, seed, steps = lesson
    assembly = assembled(TASKS[name], seed, compression=how)
    training = Training(assembly)
    losses, start_s = [], time.perf_counter()
    for step in range(steps):
        losses += training.losses(training.run([TASKS[name].batch(1000 * seed + step)]))
    elapsed_s = time.perf_counter() - start_s
    sent = assembly.synchronizer.wire.sent_bytes
    assembly.close()
    return statistics.mean(losses[-max(1, steps // 10) :]), sent / steps, elapsed_s / steps


def converge(ranks: Ranks, steps: int, seeds: int) -> bool:
    """Print the table; whether all limits hold."""
    good = True
    print(f"{steps} steps, {seeds} seeds, W={WIDTH} D=1, in four processes:")
    print(f"  {'':12}{'':11}{'loss':>8}{'of dense':>10}{'bytes/step':>12}{'of dense':>10}{'time':>7}")
    for name in TASKS:
        dense: list[float] = []
        for how in HOWS:
            lessons = [Lesson(name, how, seed, steps) for seed in range(seeds)]
            runs = [ranks.run(learn, lesson, timeout=600.0)[0] for lesson in lessons]
            found = [statistics.mean(column) for column in zip(*runs, strict=True)]
            dense = dense or found
            ratios = [value / before for value, before in zip(found, dense, strict=True)]
            beyond = ratios[0] - 1 > LIMITS.get(how, float("inf"))
            good &= not beyond
            print(
                f"  {name:12}{how:11}{found[0]:8.4f}{ratios[0] - 1:10.1%}{found[1]:12,.0f}{ratios[1]:10.2%}"
                f"{ratios[2]:7.2f}{'  BEYOND A LIMIT' if beyond else ''}",
                flush=True,
            )
    return good


def large(seed: int) -> list[nn.Module]:
    """2.1 million weights."""
    return perceptron(seed, LARGE)


BIG = Task(large, labelled, lambda weights: torch.optim.SGD(weights, lr=0.01))


class Step(NamedTuple):
    """Iterations that were run one after another, so that whatever else the machine did they share."""

    dense: Span
    """Without compression over the slow link."""
    compressed: Span
    """With it over the slow link."""
    dense_parts: list[Span]
    """Without it and without a slow link: before its collective, and after it."""
    parts: list[Span]
    """The same with it; and between two collectives."""


def measure(_rank: int, _world_size: int, how: str) -> list[Step]:
    """Steps of four trainings in turn."""
    names, found, batch = ("none", how), [], labelled(0)
    slow = [assembled(BIG, 0, compression=name, link_bytes_per_s=LINK_BYTES_PER_S) for name in names]
    in_parts, meetings = [assembled(BIG, 0, compression=name) for name in names], (Meeting(), Meeting())
    for name, assembly, meeting in zip(names, in_parts, meetings, strict=True):
        assembly.synchronizer.wire = meeting
        assembly.synchronizer.compressor = Compressor(read_compression(name), wire=meeting)
    slow_ones, others = ([Training(each) for each in several] for several in (slow, in_parts))
    for _ in range(UNTIMED_STEPS + TIMED_STEPS):
        dense, compressed = (span_of(training, batch) for training in slow_ones)
        dense_parts, parts = (
            parts_of(training, batch, meeting) for training, meeting in zip(others, meetings, strict=True)
        )
        found.append(Step(dense, compressed, dense_parts, parts))
    for each in (*slow, *in_parts):
        each.close()
    return found[UNTIMED_STEPS:]


def span_of(training: Training, batch: Batch) -> Span:
    """One iteration."""
    dist.barrier()
    begun_s = time.monotonic()
    training.run([batch])
    return begun_s, time.monotonic()


def parts_of(training: Training, batch: Batch, meeting: Meeting) -> list[Span]:
    """One iteration without its collectives."""
    meeting.restart()
    training.run([batch])
    meeting.end()
    return meeting.parts


def median_s(spans: Iterable[Sequence[Span]]) -> float:
    """Of every step the spans of all ranks."""
    return statistics.median(map(lasted_s, spans))


def wires_s(ranks: Ranks, how: str, elements: int) -> list[float]:
    """What the model says of each collective."""
    compression = read_compression(how)
    operation: Operation = compression.collective
    latency_s = max(ranks.run(wake, operation)) / formula_factors(operation, WIDTH)[0]
    cluster = make_cluster(collective=(latency_s, LINK_BYTES_PER_S))
    network = Network(cluster, WIDTH, 1, "pipe_major")
    carry = network.all_gather_s if operation == "all_gather" else network.all_reduce_s
    following = float(compression.following_bytes(elements))
    first = float(compression.volume_bytes(elements)) - following
    return [float(carry(np.array([size]), 1)[0]) for size in (first, following) if size]


def speed_up(ranks: Ranks) -> bool:
    """Print what every compression gains over the slow link; whether the model is near."""
    elements = sum(weight.numel() for layer in large(0) for weight in layer.parameters())
    print(f"{elements:,} weights over links of {LINK_BYTES_PER_S / 1e6:.0f} MB/s, medians in ms:")
    print(
        f"  {'':11}{'none':>8}{'model':>8}{'with':>8}{'model':>8}{'speed-up':>10}{'model':>7}{'error':>8}"
        f"{'parts: none':>13}{'with':>22}{'collectives':>13}"
    )
    good = True
    for how in NAMES[1:]:
        steps = list(zip(*ranks.run(measure, how, timeout=600.0), strict=True))
        dense_s, with_s = (median_s([[each[kind] for each in step] for step in steps]) for kind in (0, 1))
        dense_parts_s, parts_s = (
            [median_s([[each[kind][part] for each in step] for step in steps]) for part in range(count)]
            for kind, count in ((2, len(steps[0][0].dense_parts)), (3, len(steps[0][0].parts)))
        )
        carried_s = wires_s(ranks, how, elements)
        dense_said_s = sum(dense_parts_s) + sum(wires_s(ranks, "none", elements))
        said_s = sum(parts_s) + sum(carried_s)
        gained, said = dense_s / with_s, dense_said_s / said_s
        beyond = abs(said / gained - 1) > SPEED_UP_LIMIT
        good &= not beyond
        times = "".join(f"{each * 1e3:8.1f}" for each in (dense_s, dense_said_s, with_s, said_s))
        print(
            f"  {how:11}{times}{gained:10.2f}{said:7.2f}{said / gained - 1:8.1%}"
            f"{_milliseconds(dense_parts_s):>13}{_milliseconds(parts_s):>22}{_milliseconds(carried_s):>13}"
            f"{'  BEYOND A LIMIT' if beyond else ''}",
            flush=True,
        )
    return good


def _milliseconds(parts_s: list[float]) -> str:
    return " + ".join(f"{part * 1e3:.1f}" for part in parts_s)


def main() -> int:
    """Print both tables; 1 if a limit is broken."""
    steps, seeds = (int(word) for word in (*sys.argv[1:], *("300", "3")[len(sys.argv) - 1 :]))
    with Ranks(WIDTH) as ranks:
        good = converge(ranks, steps, seeds) if steps else True
        return 0 if speed_up(ranks) and good else 1


if __name__ == "__main__":
    sys.exit(main())
