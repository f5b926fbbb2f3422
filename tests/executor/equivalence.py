"""What do pipelines of many kinds learn, beside one process on the same mini-batches?

A case is run by all ranks of a group, one case after the other; each rank compares what it holds with what
one process gets, and says by how much they differ at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from executor.errors import ExecutorError
from executor.models.loss import Loss, mean_squared_error
from executor.running.assembly import Settings
from executor.running.checking import Check, worst
from executor.running.pipeline import Pipeline
from executor.running.reference import Learnt, learn
from tuner.configuration import Configuration
from tuner.errors import TunerError

NOTHING = Check(0.0, 0.0, 0.0)
WIDTH = 16
SAMPLES = 96
DOUBLE = torch.float64


def net(blocks: int = 8) -> list[nn.Module]:
    """Equal blocks of a linear layer and a hyperbolic tangent, in float64."""
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH, dtype=DOUBLE), nn.Tanh()) for _ in range(blocks)]


def mini_batches(count: int = 2, samples: int = SAMPLES) -> list[tuple[Tensor, Tensor]]:
    """Random inputs and targets [samples, 16]."""
    generator = torch.Generator().manual_seed(1)
    drawn = torch.randn(2 * count, samples, WIDTH, dtype=DOUBLE, generator=generator)
    return [(drawn[2 * number], drawn[2 * number + 1]) for number in range(count)]


def sgd(parameters: Any) -> torch.optim.Optimizer:
    """Plain gradient descent."""
    return torch.optim.SGD(parameters, lr=0.1)


@dataclass(frozen=True)
class Case:
    """A configuration and what else is asked of it; functions are importable, so that ranks can be told."""

    configuration: Configuration
    settings: Settings = field(default_factory=Settings)
    layers: Callable[[], list[nn.Module]] = net
    data: Callable[[], list[tuple[Any, Tensor]]] = mini_batches
    loss: Callable[[], Loss] = mean_squared_error
    optimizer: Callable[[Any], torch.optim.Optimizer] = sgd
    by_micro_batches: bool = False
    """Whether the one process cuts its mini-batches alike: what it draws, or counts, depends on them."""

    @property
    def parts(self) -> int:
        """Into how many parts the one process cuts each of them: halving draws for every half."""
        return 2 if self.by_micro_batches and self.configuration.scaling == "halving" else 1

    def reference(self) -> Learnt:
        """What one process learns."""
        pieces = self.configuration.micro_batches * self.configuration.width
        return learn(
            self.layers(),
            self.loss(),
            self.data(),
            optimizer=self.optimizer,
            micro_batches=pieces if self.by_micro_batches else 1,
            parts=self.parts,
            clip_norm=self.settings.clip_norm,
            seed=self.settings.seed,
        )


@dataclass(frozen=True)
class Found:
    """What the ranks found: the largest differences, or why the case was refused."""

    check: Check = NOTHING
    refused: str = ""


def run_cases(rank: int, world_size: int, cases: list[Case]) -> list[Found]:
    """Run the cases on this rank; an illegal one is refused before anything is sent."""
    learnt: dict[Any, Learnt] = {}
    found = []
    for case in cases:
        try:
            pipeline = Pipeline(
                case.layers(),
                case.loss(),
                case.configuration,
                optimizer=case.optimizer,
                settings=case.settings,
            )
            losses = pipeline.train(case.data())
        except (TunerError, ExecutorError) as error:
            found.append(Found(refused=f"{type(error).__name__}: {error}"))
            continue
        pieces = case.configuration.micro_batches * case.configuration.width if case.by_micro_batches else 1
        key = (
            case.layers,
            case.data,
            case.loss,
            case.optimizer,
            pieces,
            case.parts,
            case.settings.clip_norm,
            case.settings.seed,
        )
        if key not in learnt:
            learnt[key] = case.reference()
        check = worst(pipeline.check(losses, learnt[key]))
        pipeline.close()
        found.append(Found(check))
    return found


def assert_equal(cases: list[Case], found: list[list[Found]]) -> None:
    """Every case that may run gives on every rank what one process gives, to 1e-12."""
    wrong = [
        f"{case.configuration} {case.settings}: {one}"
        for case, ranks in zip(cases, zip(*found, strict=True), strict=True)
        for one in set(ranks)
        if one.refused or not one.check.passes("float64")
    ]
    assert not wrong, "\n".join(wrong)
