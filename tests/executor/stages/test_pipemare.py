"""Does a stage follow PipeMare's three techniques, number by number?"""

import pytest
import torch
from torch import nn

from executor.errors import ConfigurationError
from executor.models.loss import mean_squared_error
from executor.stages.pipemare import PipeMareRule, PipeMareWeights
from executor.stages.stage import Stage
from executor.values import Tensors
from executor.works import Passage, Target
from tests.executor.chain import samples, tanh_layers


def test_delays_decays_and_rates_are_those_of_the_paper() -> None:
    """4 stages, 2 micro-batches: τ = (2(P − i) + 1)/N; the annealing ends at K steps after the warm-up."""
    rules = [PipeMareRule(s, 4, 2, annealing_steps=10, warm_up_steps=5) for s in range(4)]
    assert [rule.delay for rule in rules] == [3.5, 2.5, 1.5, 0.5]
    assert rules[0].decay == pytest.approx(0.135 ** (1 / 3.5))
    assert [rules[0].rate(step) for step in (0, 4, 15, 99)] == [1, 1, 1, 1]
    assert rules[0].rate(5) == pytest.approx(1 / 3.5)
    assert rules[0].rate(10) == pytest.approx(3.5**-0.5)
    assert [rules[3].rate(step) for step in (5, 10)] == [1, 1]  # max(τ, 1)
    assert PipeMareRule(0, 4, 2).rate(0) == 1


@pytest.mark.parametrize("options", [{"stage": 4}, {"micro_batches": 0}, {"annealing_steps": -1}])
def test_rules_without_sense_are_refused(options: dict[str, int]) -> None:
    """Before anything runs."""
    with pytest.raises(ConfigurationError):
        PipeMareRule(**{"stage": 0, "stages": 4, "micro_batches": 1, **options})  # type: ignore[arg-type]


class Scalars:
    """Two stages y = w·x by hand: forward on the weights of then, backward on u = w − τ·δ of now."""

    def __init__(self, rules: list[PipeMareRule]) -> None:
        self.rules, self.w, self.delta, self.step = rules, [1.2, 0.8], [0.0, 0.0], 0

    def forward(self, x: float) -> tuple[float, float, float]:
        """What is saved: the input of each stage, and the output."""
        return x, self.w[0] * x, self.w[1] * self.w[0] * x

    def gradients(self, saved: tuple[float, float, float], y: float, count: int) -> list[float]:
        """Of one micro-batch's share of the mean squared error."""
        corrected = self.step >= self.rules[0].warm_up_steps
        u = self.w[1] - (
            self.rules[1].delay * self.delta[1] if corrected and self.rules[1].correction else 0.0
        )
        arriving = 2 * (saved[2] - y) / count
        return [u * arriving * saved[0], arriving * saved[1]]

    def update(self, gradients: list[float], lr: float) -> None:
        """T1, the step, δ."""
        for i, rule in enumerate(self.rules):
            new = self.w[i] - lr * rule.rate(self.step) * gradients[i]
            self.delta[i] = rule.decay * self.delta[i] + (1 - rule.decay) * (new - self.w[i])
            self.w[i] = new
        self.step += 1


@pytest.mark.parametrize("correction", [False, True])
@pytest.mark.parametrize("annealing_steps", [0, 6])
@pytest.mark.parametrize("warm_up_steps", [0, 3])
def test_stages_follow_the_rule_step_by_step(
    correction: bool, annealing_steps: int, warm_up_steps: int
) -> None:
    """10 steps in which the next micro-batch is forward before each update, as where nothing drains."""
    count, lr = 2, 0.05
    rules = [PipeMareRule(s, 2, count, annealing_steps, warm_up_steps, correction) for s in range(2)]
    layers = [nn.Linear(1, 1, bias=False, dtype=torch.float64) for _ in range(2)]
    for layer, weight in zip(layers, (1.2, 0.8), strict=True):
        nn.init.constant_(layer.weight, weight)
    weights = [PipeMareWeights([layer], rule) for layer, rule in zip(layers, rules, strict=True)]
    stages = [
        Stage([layer], weights=weights[s], loss=mean_squared_error() if s else None)
        for s, layer in enumerate(layers)
    ]
    optimizers = [torch.optim.SGD(layer.parameters(), lr=lr) for layer in layers]
    by_hand = Scalars(rules)
    data = [(0.7 - 0.1 * m, 0.2 + 0.05 * m) for m in range(10 * count)]
    saved: dict[int, tuple[float, float, float]] = {}

    def forward(m: int) -> None:
        values: Tensors = (torch.tensor([[data[m][0]]], dtype=torch.float64),)
        values = stages[0].forward(Passage(0, m), values)
        target = Target(torch.tensor([[data[m][1]]], dtype=torch.float64), float(count))
        stages[1].forward(Passage(0, m), values, target=target)
        saved[m] = by_hand.forward(data[m][0])

    forward(0)
    for step in range(10):
        sums = [0.0, 0.0]
        for m in range(step * count, (step + 1) * count):
            if m + 1 < len(data):
                forward(m + 1)
            stages[0].backward(Passage(0, m), stages[1].backward(Passage(0, m), ()))
            sums = [a + b for a, b in zip(sums, by_hand.gradients(saved[m], data[m][1], count), strict=True)]
        for own, optimizer in zip(weights, optimizers, strict=True):
            with own.updating(optimizer, step + 1):
                optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        by_hand.update(sums, lr)
        assert [layer.weight.item() for layer in layers] == pytest.approx(by_hand.w, abs=1e-13)
        assert [optimizer.param_groups[0]["lr"] for optimizer in optimizers] == [lr, lr]


@pytest.mark.parametrize("split", [False, True])
def test_without_an_update_in_between_gradients_are_exact(split: bool) -> None:
    """References to weights, and to views of them, unpack to what was saved, also in one storage."""
    layers, twin = tanh_layers(2), tanh_layers(2)
    flat = torch.cat([p.detach().flatten() for layer in layers for p in layer.parameters()])
    offset = 0
    for layer in layers:
        for name, parameter in list(layer.named_parameters()):
            piece = flat[offset : offset + parameter.numel()].view_as(parameter)
            setattr(layer, name, nn.Parameter(piece))
            offset += parameter.numel()
    stage = Stage(layers, weights=PipeMareWeights(layers, PipeMareRule(0, 4, 1)))
    value, ones = samples(4)[0].requires_grad_(), torch.ones(4, 16, dtype=torch.float64)
    stage.forward(Passage(0, 0), (value,))
    (found,) = (stage.input_backward if split else stage.backward)(Passage(0, 0), (ones,))
    if split:
        stage.weight_backward(Passage(0, 0))
    nn.Sequential(*twin)(value).backward(ones)
    assert value.grad is not None
    assert torch.equal(found, value.grad)
    for parameter, other in zip(
        nn.ModuleList(layers).parameters(), nn.ModuleList(twin).parameters(), strict=True
    ):
        assert parameter.grad is not None
        assert other.grad is not None
        assert torch.equal(parameter.grad, other.grad)


def test_a_checkpoint_goes_on_with_delta_and_step() -> None:
    """Loaded into new weights, both are what they were."""
    layers = tanh_layers(1)
    weights = PipeMareWeights(layers, PipeMareRule(0, 2, 1))
    optimizer = torch.optim.SGD(nn.ModuleList(layers).parameters(), lr=0.1)
    nn.Sequential(*layers)(samples(2)[0]).sum().backward()
    with weights.updating(optimizer, 1):
        optimizer.step()
    again = PipeMareWeights(layers, PipeMareRule(0, 2, 1))
    again.load_state(weights.state)
    assert again.step == 1
    assert all(
        torch.equal(a, b) and a.any()
        for a, b in zip(again.state["deltas"], weights.state["deltas"], strict=True)
    )
