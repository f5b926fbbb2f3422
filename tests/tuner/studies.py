"""What is tried in the tests of refinement? Options on a grid, and trials of them, by hand."""

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np

from tuner.configuration import Configuration
from tuner.refinement import Budget, Decision, refine
from tuner.trials import Option, Trial, TrialStatus

GB = 1_000_000_000
SCHEDULES = ("chimera", "dapple", "gpipe")
DEPTHS = (2, 4, 8, 16)
SIZES = (1, 2, 4, 8, 16)

Truth = Callable[[Option], float]


def make_configuration(
    schedule: str = "dapple", *, depth: int = 4, size: int = 2, **other: object
) -> Configuration:
    """A configuration of 16 devices and a mini-batch of 1,024."""
    width = 16 // depth
    made = Configuration(schedule, width, depth, size, 1_024 // (width * size))
    return made.with_(**other)


def make_option(
    configuration: Configuration | None = None,
    *,
    predicted_s: float = 1.0,
    needed_bytes: float = 40 * GB,
    capacity_bytes: float = 80 * GB,
    shares: tuple[float, ...] = (0.2, 0.05, 0.05),
) -> Option:
    """One configuration, by default one that takes a second and half of the memory."""
    return Option(configuration or make_configuration(), predicted_s, needed_bytes, capacity_bytes, shares)


def grid() -> tuple[Option, ...]:
    """60 options whose times fall with the micro-batch size and have a best depth."""
    options = []
    for number, (schedule, depth, size) in enumerate(product(SCHEDULES, DEPTHS, SIZES)):
        bubble = 0.02 * depth * (1 + SCHEDULES.index(schedule) / 2) * (0.5 + size / 16)
        messages, collectives = 0.01 * depth / size, 0.4 / depth
        work = 1 + 0.3 / size + 0.001 * number
        whole = work + bubble + messages + collectives
        options.append(
            make_option(
                make_configuration(schedule, depth=depth, size=size),
                predicted_s=whole,
                needed_bytes=(16 + 128 / depth * 0.5 + 1.5 * size) * GB,
                shares=(bubble / whole, messages / whole, collectives / whole),
            )
        )
    return tuple(options)


def make_trial(
    option: Option,
    *,
    status: TrialStatus | str = TrialStatus.OK,
    factor: float = 1.0,
    peak_bytes: float | None = None,
    device_seconds: float = 100.0,
) -> Trial:
    """A trial of an option; one that ran took `factor` times what was predicted."""
    status = TrialStatus(status)
    return Trial(
        option.configuration,
        option.predicted_s,
        status,
        measured_s=option.predicted_s * factor if status in {TrialStatus.OK, TrialStatus.NOISY} else None,
        peak_bytes=peak_bytes,
        device_seconds=device_seconds if status not in {TrialStatus.QUEUED, TrialStatus.RUNNING} else 0.0,
    )


def slow_links(option: Option) -> float:
    """Messages and collectives take three times as long, small micro-batches are slower, one schedule is."""
    slower = 1.1 if option.configuration.schedule == "chimera" else 1.0
    size = option.configuration.micro_batch_size
    return option.predicted_s * (1 + 2 * (option.shares[1] + option.shares[2]) + 0.2 / size) * slower


def run_study(
    options: Sequence[Option], truth: Truth, *, seed: int = 0, noise: float = 0.02, trials: int = 10
) -> tuple[list[Trial], Decision]:
    """Trials one after the other until the refinement stops, and its last word."""
    random, rows = np.random.default_rng(seed), list[Trial]()
    found = {option.configuration: option for option in options}
    while True:
        decision = refine(options, rows, seed=seed, budget=Budget(trials=trials))
        if not decision.proposals:
            return rows, decision
        option = found[decision.proposals[0].configuration]
        factor = truth(option) / option.predicted_s * math.exp(random.normal(0, noise))
        rows.append(make_trial(option, factor=factor))
