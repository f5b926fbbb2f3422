"""Do pipelines without a flush learn what their papers' rules say?"""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from executor.models.loss import mean_squared_error
from executor.running.assembly import Settings
from executor.running.pipeline import Pipeline
from tests.executor.equivalence import mini_batches, net
from tests.executor.processes import Ranks
from tests.executor.running.by_the_rule import RATE, Rule
from tests.executor.running.layouts import layout
from tuner.configuration import Configuration

EXACT = 1e-12
CALLS = (4, 1, 3)
"""Mini-batches of each call of `train`."""


def sgd(parameters: Any) -> torch.optim.Optimizer:
    """Plain gradient descent."""
    return torch.optim.SGD(parameters, lr=RATE)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    """With a state that must go on from version to version."""
    return torch.optim.SGD(parameters, lr=RATE, momentum=0.9)


def calls() -> list[list[tuple[Tensor, Tensor]]]:
    """Eight mini-batches of 50 samples in three calls."""
    batches = mini_batches(sum(CALLS), 50)
    return [batches[:4], batches[4:5], batches[5:]]


def trained(
    rank: int,
    world_size: int,
    configuration: Configuration,
    settings: Settings,
    optimizer: Any,
    path: str | None,
) -> tuple[list[float], dict[str, Tensor], dict[str, Tensor]]:
    """Losses of three calls, the whole model, and this rank's replicas; through a checkpoint where asked."""

    def made() -> Pipeline:
        return Pipeline(net(), mean_squared_error(), configuration, optimizer=optimizer, settings=settings)

    pipeline = made()
    losses = []
    for number, batches in enumerate(calls()):
        losses += pipeline.train(batches)
        if path is not None and number == 0:
            pipeline.save(path)
            pipeline = made()
            pipeline.load(path)
    own = {name: value.detach() for one in pipeline._assembly.held for name, value in one.parameters()}
    return losses, pipeline.full_state(), own


def follow(
    ranks: Ranks,
    configuration: Configuration,
    *,
    settings: Settings | None = None,
    optimizer: Any = sgd,
    path: str | None = None,
) -> None:
    """Hold the ranks to the rule, step for step."""
    asked = settings or Settings()
    rule = Rule(
        configuration.depth,
        configuration.width,
        configuration.micro_batches,
        annealing=asked.pipemare_annealing_steps,
        warm_up=asked.pipemare_warm_up_steps,
        momentum=0.9 if optimizer is momentum else 0.0,
    )
    for batches in calls():
        getattr(rule, configuration.schedule)(batches)
    found = ranks.run(trained, configuration, asked, optimizer, path)
    whole = list(found[0][1].values())
    assert max((a - b).abs().max().item() for a, b in zip(whole, rule.weights, strict=True)) <= EXACT
    for losses, _, own in found:
        assert max(abs(a - b) for a, b in zip(losses, rule.losses, strict=True)) <= EXACT
        assert all(torch.equal(value, found[0][1][name]) for name, value in own.items())


@pytest.mark.parametrize(
    ("schedule", "recompute"),
    [
        ("pipedream", "none"),
        ("pipedream", "layer"),
        ("pipedream_2bw", "none"),
        ("pipedream_2bw", "stage"),
        ("pipemare", "none"),
    ],
)
def test_four_stages_follow_the_rule(four: Ranks, schedule: str, recompute: str) -> None:
    """D=4 with as many micro-batches, and with more; every version is read when the paper says."""
    for micro_batches in (4, 6):
        follow(four, layout(schedule, 1, 4, micro_batches, recompute=recompute))


@pytest.mark.parametrize("schedule", ["pipedream", "pipedream_2bw", "pipemare"])
@pytest.mark.parametrize("settings", [Settings(), Settings(rank_order="data_major", buckets=2)])
def test_two_groups_of_two_stages_follow_the_rule(four: Ranks, schedule: str, settings: Settings) -> None:
    """D=2, W=2: gradients of a version are those of both groups, and replicas are equal bit for bit."""
    for micro_batches in (2, 3):
        follow(four, layout(schedule, 2, 2, micro_batches), settings=settings)


def test_pipedream_makes_a_version_of_every_mini_batch(two: Ranks, four: Ranks) -> None:
    """One micro-batch in a mini-batch, as the paper has it."""
    follow(two, layout("pipedream", 1, 2, 1))
    follow(four, layout("pipedream", 1, 4, 1))
    follow(four, layout("pipedream", 2, 2, 1))
    follow(four, layout("pipedream", 4, 1, 1))


@pytest.mark.parametrize("schedule", ["pipedream", "pipedream_2bw"])
def test_the_optimizers_state_goes_on_from_version_to_version(four: Ranks, schedule: str) -> None:
    """Momentum, through all versions and calls."""
    follow(four, layout(schedule, 1, 4, 4), optimizer=momentum)
    follow(four, layout(schedule, 2, 2, 2), optimizer=momentum)


@pytest.mark.parametrize(("annealing", "warm_up"), [(6, 0), (0, 3), (3, 2), (4, 5)])
def test_pipemare_anneals_its_rates_and_warms_up(four: Ranks, annealing: int, warm_up: int) -> None:
    """T1, T3 and both, with a warm-up that ends within the first call, or after it."""
    settings = Settings(pipemare_annealing_steps=annealing, pipemare_warm_up_steps=warm_up)
    follow(four, layout("pipemare", 1, 4, 4), settings=settings)
    follow(four, layout("pipemare", 2, 2, 2), settings=settings)


@pytest.mark.parametrize("schedule", ["pipedream", "pipedream_2bw", "pipemare"])
def test_a_checkpoint_between_two_calls_changes_nothing(four: Ranks, schedule: str, tmp_path: Path) -> None:
    """PipeMare's corrections and the step it has come to are in it."""
    settings = Settings(pipemare_annealing_steps=6, pipemare_warm_up_steps=1)
    optimizer = sgd if schedule == "pipemare" else momentum
    path = str(tmp_path / "a.pt")
    follow(four, layout(schedule, 1, 4, 4), settings=settings, optimizer=optimizer, path=path)
