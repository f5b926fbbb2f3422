"""Do input gradients and weight gradients, computed apart, make the gradients of one backward?"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from executor.stages.split_backward import SplitBackward


def float64(module: nn.Module) -> nn.Module:
    """The same weights at every call."""
    torch.manual_seed(0)
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


class Tied(nn.Module):
    """Uses one matrix, one bias, and one normalisation twice."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(6, 6), nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        """[B, 6] -> [B, 6]."""
        given: Tensor = self.norm(self.linear(self.norm(self.linear(x)).tanh()))
        return given


class Gated(nn.Module):
    """A product of parameters of which one is used at two places, and a branch that no input reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.gate = nn.Parameter(torch.empty(6)), nn.Parameter(torch.empty(6))
        self.aside, self.linear = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        """[B, 6] -> [B, 6]."""
        mixed = self.scale * self.gate.sigmoid()
        given: Tensor = self.linear(x * mixed) * mixed + self.aside(self.gate).tanh()
        return given


class Residual(nn.Module):
    """Attention and a feed-forward layer around residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.first, self.second, self.norm = nn.Linear(6, 24), nn.Linear(24, 6), nn.LayerNorm(6)

    def forward(self, x: Tensor) -> Tensor:
        """[B, 6] -> [B, 6]."""
        words = x[None]
        seen = words + self.attention(words, words, words, need_weights=False)[0]
        given: Tensor = (seen + self.second(torch.nn.functional.gelu(self.first(self.norm(seen)))))[0]
        return given


MODELS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(6, 6),
    "perceptron": lambda: nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 6), nn.Tanh()),
    "tied": Tied,
    "gated": Gated,
    "residual": Residual,
    "recurrent": lambda: nn.RNNCell(6, 6),
    "without parameters": nn.Tanh,
}


@pytest.mark.parametrize("name", MODELS)
def test_two_steps_give_the_gradients_of_one(name: str) -> None:
    """Inputs first, with all parameters' gradients untouched, then the parameters."""
    model, twin = float64(MODELS[name]()), float64(MODELS[name]())
    x = torch.linspace(-1, 1, 30, dtype=torch.float64).reshape(5, 6).requires_grad_()
    other = x.detach().clone().requires_grad_()
    arriving = torch.cos(x.detach() * 7)
    twin(other).backward(arriving)

    split = SplitBackward([get_gradient_edge(model(x))], [arriving], [x])
    (found,) = split.inputs()
    assert found is not None
    assert other.grad is not None
    torch.testing.assert_close(found, other.grad, rtol=0, atol=1e-14)
    assert all(parameter.grad is None for parameter in model.parameters())
    split.weights()
    for parameter, expected in zip(model.parameters(), twin.parameters(), strict=True):
        if expected.grad is not None:
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, expected.grad, rtol=0, atol=1e-14)


def test_weight_gradients_are_added_to_what_is_there() -> None:
    """Into the same memory, which may be a view of a larger buffer."""
    model = float64(nn.Linear(6, 6))
    buffer = torch.ones(42, dtype=torch.float64)
    weight, bias = model.get_parameter("weight"), model.get_parameter("bias")
    weight.grad, bias.grad = buffer[:36].view(6, 6), buffer[36:]
    x = torch.ones(2, 6, dtype=torch.float64, requires_grad=True)
    split = SplitBackward([get_gradient_edge(model(x))], [torch.ones(2, 6, dtype=torch.float64)], [x])
    split.inputs()
    assert torch.equal(buffer, torch.ones(42, dtype=torch.float64))
    split.weights()
    assert torch.equal(buffer, torch.full((42,), 3.0, dtype=torch.float64))


def test_several_outputs_and_inputs_may_share_parts_of_a_graph() -> None:
    """Two outputs from three inputs, of which one is not used, through a shared layer."""
    shared, own = float64(nn.Linear(6, 6)), float64(nn.Linear(6, 6))

    def outputs(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        middle = shared(a).tanh()
        return own(middle) * b, middle

    a, b, unused = (torch.randn(3, 6, dtype=torch.float64, requires_grad=True) for _ in range(3))
    weights = [torch.randn(3, 6, dtype=torch.float64) for _ in range(2)]
    parameters = [*shared.parameters(), *own.parameters()]
    expected = torch.autograd.grad(outputs(a, b), [a, b, *parameters], weights)
    split = SplitBackward([get_gradient_edge(one) for one in outputs(a, b)], weights, [a, b, unused])
    found = split.inputs()
    assert found[2] is None
    split.weights()
    for one, other in zip([*found[:2], *(p.grad for p in parameters)], expected, strict=True):
        assert one is not None
        torch.testing.assert_close(one, other, rtol=0, atol=1e-14)


def test_a_shared_output_without_a_path_to_inputs_is_left_to_the_second_step() -> None:
    """The same tensor given twice counts twice."""
    layer = float64(nn.Linear(6, 6))
    given = layer(torch.ones(2, 6, dtype=torch.float64))
    ones = torch.ones(2, 6, dtype=torch.float64)
    x = torch.ones(2, 6, dtype=torch.float64, requires_grad=True)
    split = SplitBackward([get_gradient_edge(given), get_gradient_edge(given)], [ones, ones], [x])
    assert split.inputs() == (None,)
    split.weights()
    bias = layer.get_parameter("bias").grad
    assert bias is not None
    assert bias.tolist() == [4.0] * 6


@pytest.mark.parametrize("kind", ["perceptron", "residual"])
def test_no_matrix_product_is_done_twice(kind: str) -> None:
    """Both steps together do as many products as one backward: the cost of splitting is bookkeeping."""

    def products(run: Callable[[], object]) -> int:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            run()
        names = {"aten::mm", "aten::bmm", "aten::addmm"}
        return sum(event.count for event in profile.key_averages() if event.key in names)

    model = float64(MODELS[kind]())
    x = torch.ones(5, 6, dtype=torch.float64, requires_grad=True)
    ones = torch.ones(5, 6, dtype=torch.float64)
    given = model(x)
    whole = products(lambda: given.backward(ones))
    split = SplitBackward([get_gradient_edge(model(x))], [ones], [x])
    first, second = products(split.inputs), products(split.weights)
    assert first + second == whole
    assert 0 < second < whole
