"""How is a case written down in a line, and held to one process?"""

from typing import Any

import torch
from torch import nn

from executor.models.loss import mean_squared_error
from executor.running.assembly import Settings
from executor.running.pipeline import Pipeline
from tests.executor.equivalence import Case, assert_equal, net, run_cases, sgd
from tests.executor.processes import Ranks
from tuner.configuration import Configuration
from tuner.schedules.generators import RECIPES

SYNCHRONOUS = tuple(name for name, recipe in RECIPES.items() if recipe.synchronous)


def layout(schedule: str, width: int, depth: int, micro_batches: int, **more: Any) -> Configuration:
    """A configuration; the micro-batch size follows from the data."""
    chunks = RECIPES[schedule].chunks
    return Configuration(schedule, width, depth, 1, micro_batches, **{"chunks": chunks} | more)


def adam(parameters: Any) -> torch.optim.Optimizer:
    """Adam."""
    return torch.optim.Adam(parameters, lr=0.01)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    """AdamW."""
    return torch.optim.AdamW(parameters, lr=0.01)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    """Momentum and decay."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def check(ranks: Ranks, cases: list[Case]) -> None:
    """All cases, one after the other, are equal to one process."""
    assert_equal(cases, ranks.run(run_cases, cases, timeout=120.0))


def made(
    configuration: Configuration, settings: Settings | None = None, layers: list[nn.Module] | None = None
) -> Pipeline:
    """A pipeline of the usual blocks."""
    blocks = net() if layers is None else layers
    return Pipeline(blocks, mean_squared_error(), configuration, optimizer=sgd, settings=settings)
