"""Does every backward differentiate the weights of its own forward, and does the optimizer go on as ever?"""

import ast
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from executor.errors import ExecutorError
from executor.models.loss import mean_squared_error
from executor.stages.stage import Recompute, Stage
from executor.stages.versions import StashedWeights
from executor.values import Tensors
from executor.works import Passage, Target
from tests.executor.chain import Layers, samples, tanh_layers

ROOT = Path(__file__).parents[3]
OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
}


def make(layers: Layers, *, readable: int = 1, recompute: Recompute = "none") -> tuple[Stage, StashedWeights]:
    """A stage whose weights are kept by version."""
    weights = StashedWeights(layers, readable=readable)
    return Stage(layers, weights=weights, recompute=recompute), weights


@pytest.mark.parametrize("recompute", ["none", "stage", "layer"])
@pytest.mark.parametrize("split", [False, True])
def test_a_backward_differentiates_the_weights_of_its_forward(recompute: Recompute, split: bool) -> None:
    """Forward under version 0, update to version 1, backward: the gradient at version 0, exactly."""
    layers, twin = tanh_layers(2), tanh_layers(2)
    stage, weights = make(layers, recompute=recompute)
    optimizer = OPTIMIZERS["sgd"](nn.ModuleList(layers).parameters())
    value = samples(4)[0].requires_grad_()
    ones = torch.ones(4, 16, dtype=torch.float64)
    stage.forward(Passage(0, 0), (value,), version=0)
    for parameter in nn.ModuleList(layers).parameters():
        assert parameter.grad is not None
        parameter.grad.fill_(0.5)
    with weights.updating(optimizer, 1):
        optimizer.step()
    for parameter in nn.ModuleList(layers).parameters():
        assert parameter.grad is not None
        parameter.grad.zero_()
    assert weights.alive == 2
    stage.forward(Passage(0, 1), (value,), version=1)
    if split:
        (found,) = stage.input_backward(Passage(0, 0), (ones,))
        stage.weight_backward(Passage(0, 0))
    else:
        (found,) = stage.backward(Passage(0, 0), (ones,))
    nn.Sequential(*twin)(value).backward(ones)
    assert value.grad is not None
    assert torch.equal(found, value.grad)
    for parameter, old in zip(
        nn.ModuleList(layers).parameters(), nn.ModuleList(twin).parameters(), strict=True
    ):
        assert parameter.grad is not None
        assert old.grad is not None
        assert torch.equal(parameter.grad, old.grad)
        assert torch.equal(parameter.detach(), stepped(old))
    assert weights.alive == 1


def stepped(old: Tensor) -> Tensor:
    """One step of SGD with a gradient of 0.5."""
    return old.detach() - 0.1 * 0.5


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_optimizer_keeps_its_state_over_versions(name: str) -> None:
    """Five updates with new leaves each give the weights of five updates in place."""
    layers, twin = tanh_layers(1), tanh_layers(1)
    _, weights = make(layers)
    optimizer = OPTIMIZERS[name](nn.ModuleList(layers).parameters())
    other = OPTIMIZERS[name](nn.ModuleList(twin).parameters())
    for step in range(5):
        for model in (layers, twin):
            for parameter in nn.ModuleList(model).parameters():
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                parameter.grad.fill_(0.1 * (step + 1))
        with weights.updating(optimizer, step + 1):
            optimizer.step()
        other.step()
    for parameter, expected in zip(
        nn.ModuleList(layers).parameters(), nn.ModuleList(twin).parameters(), strict=True
    ):
        assert torch.equal(parameter, expected)
    assert len(optimizer.state) == len(other.state)
    assert weights.alive == 1


def scalar_stage(
    weight: float, *, readable: int, loss: bool
) -> tuple[Stage, StashedWeights, torch.optim.SGD]:
    """Y = w·x."""
    layer = nn.Linear(1, 1, bias=False, dtype=torch.float64)
    nn.init.constant_(layer.weight, weight)
    weights = StashedWeights([layer], readable=readable)
    stage = Stage([layer], weights=weights, loss=mean_squared_error() if loss else None)
    return stage, weights, torch.optim.SGD(layer.parameters(), lr=0.05)


def gradients_at(weights: list[float], xs: list[float], ys: list[float]) -> list[float]:
    """Of the mean of (w_1···w_D·x − y)², by hand."""
    found = [0.0] * len(weights)
    for x, y in zip(xs, ys, strict=True):
        product = x
        for w in weights:
            product *= w
        for place in range(len(weights)):
            others = x
            for number, w in enumerate(weights):
                others *= w if number != place else 1.0
            found[place] += 2 * (product - y) * others / len(xs)
    return found


def test_2bw_steps_with_the_gradient_of_the_version_before() -> None:
    """6 mini-batches of 4 stages: W(t+1) = W(t) − lr·g(W(t−1)); two versions are held, whatever is alive."""
    start, count = [1.1, 0.7, 0.9, 1.3], 4
    data = [[(0.3 * b + 0.2 * m - 0.8, 0.5 - 0.1 * m) for m in range(count)] for b in range(6)]
    stages = [scalar_stage(w, readable=2, loss=s == 3) for s, w in enumerate(start)]

    def forward(batch: int, m: int) -> None:
        values: Tensors = (torch.tensor([[data[batch][m][0]]], dtype=torch.float64),)
        target = Target(torch.tensor([[data[batch][m][1]]], dtype=torch.float64), float(count))
        for number, (stage, _, _) in enumerate(stages):
            last = target if number == 3 else None
            values = stage.forward(Passage(batch, m), values, version=max(batch - 1, 0), target=last)

    history = [start]
    forward(0, 0)
    for batch in range(6):
        for m in range(count):
            ahead = (batch, m + 1) if m + 1 < count else (batch + 1, 0)
            if ahead[0] < 6:
                forward(*ahead)  # the next micro-batch is under way before this one's backward
            gradient: Tensors = ()
            for stage, _, _ in reversed(stages):
                gradient = stage.backward(Passage(batch, m), gradient)
        for _, weights, optimizer in stages:
            with weights.updating(optimizer, batch + 1):
                optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        slope = gradients_at(
            history[max(batch - 1, 0)], *(list(part) for part in zip(*data[batch], strict=True))
        )
        history.append([w - 0.05 * g for w, g in zip(history[-1], slope, strict=True)])
        found = [optimizer.param_groups[0]["params"][0].item() for _, _, optimizer in stages]
        assert found == pytest.approx(history[-1], abs=1e-12)
        assert all(weights.alive == 2 for _, weights, _ in stages)


def test_pipedream_updates_after_every_backward() -> None:
    """One stage, three alive: w(t+1) = w(t) − lr·g(version of its forward), by a loop of scalars."""
    stage, weights, optimizer = scalar_stage(1.1, readable=1, loss=True)
    data = [(0.2 * m - 0.9, 0.4 + 0.1 * m) for m in range(9)]
    w, read, newest = 1.1, {}, 0
    order = [
        ("F", 0),
        ("F", 1),
        *((kind, m + shift) for m in range(7) for kind, shift in (("F", 2), ("B", 0))),
    ]
    for kind, m in [*order, ("B", 7), ("B", 8)]:
        x, y = data[m]
        if kind == "F":
            read[m] = w
            value = torch.tensor([[x]], dtype=torch.float64)
            target = Target(torch.tensor([[y]], dtype=torch.float64), 1.0)
            stage.forward(Passage(0, m), (value,), version=newest, target=target)
        else:
            stage.backward(Passage(0, m), ())
            newest += 1
            with weights.updating(optimizer, newest):
                optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            w -= 0.05 * 2 * (read[m] * x - y) * x
            assert optimizer.param_groups[0]["params"][0].item() == pytest.approx(w, abs=1e-13)
            assert weights.alive <= 3
    assert weights.alive == 1


def test_tied_leaves_stay_tied_and_frozen_ones_stay() -> None:
    """Within a stage one parameter under two names becomes one new leaf."""
    first, second, frozen = (nn.Linear(2, 2) for _ in range(3))
    second.weight = first.weight
    frozen.requires_grad_(False)
    kept = frozen.weight
    weights = StashedWeights([first, second, frozen])
    optimizer = torch.optim.SGD([*first.parameters(), second.bias], lr=0.1)
    with weights.updating(optimizer, 1) as replaced:
        assert len(replaced) == 3
    assert second.weight is first.weight
    assert frozen.weight is kept
    assert optimizer.param_groups[0]["params"][0] is first.weight


def test_versions_that_are_not_held_are_refused() -> None:
    """Reading a dropped one, and making one out of turn."""
    layers = tanh_layers(1)
    stage, weights = make(layers)
    optimizer = OPTIMIZERS["sgd"](nn.ModuleList(layers).parameters())
    with (
        pytest.raises(ExecutorError, match="makes version 2 and version 0 is the newest"),
        weights.updating(optimizer, 2),
    ):
        pass
    with weights.updating(optimizer, 1):
        pass
    with pytest.raises(ExecutorError, match=r"reads version 0 of the weights, and versions \[1\] are held"):
        stage.forward(Passage(0, 0), (samples(1)[0],), version=0)


def test_no_weight_is_written_behind_the_back_of_autograd() -> None:
    """`.data` would hide a change of what a live graph saved."""
    names = ("versions", "pipemare", "stage", "segments", "split_backward", "buffers", "halving", "passages")
    for name in names:
        tree = ast.parse((ROOT / "executor" / "stages" / f"{name}.py").read_text(encoding="utf-8"))
        assert not [
            node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "data"
        ]
