"""What crosses a cut, when not every tensor of it needs a gradient, is a float, or is used?"""

import pytest
import torch
from torch import Tensor, nn

from executor.errors import ModelError
from executor.stages.stage import Recompute, Stage
from executor.values import Spec
from executor.works import Passage, Target
from tests.executor.chain import Chain, assert_same_gradients, reference, samples, tanh_layers

RECOMPUTE: tuple[Recompute, ...] = ("none", "stage", "layer")


class Begin(nn.Module):
    """Token numbers [B, S] -> states [B, S, 4], float mask, the numbers, bool mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 4, dtype=torch.float64)

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        """The mask is 0 for token 0."""
        kept = tokens != 0
        return self.embedding(tokens), kept.double(), tokens, kept


class Middle(nn.Module):
    """States go through a linear layer where the masks say so; everything else is handed on."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4, dtype=torch.float64)

    def forward(self, states: Tensor, mask: Tensor, tokens: Tensor, kept: Tensor) -> tuple[Tensor, ...]:
        """[B, S, 4], [B, S], [B, S], [B, S] -> the same."""
        changed = torch.tanh(self.linear(states)) * mask[..., None]
        return torch.where(kept[..., None], changed, states), mask, tokens, kept


class End(nn.Module):
    """Logits from states, and from the token numbers that came all the way."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 11, dtype=torch.float64)

    def forward(self, states: Tensor, mask: Tensor, tokens: Tensor, kept: Tensor) -> Tensor:
        """-> [B, 11]."""
        given: Tensor = self.head((states * mask[..., None]).sum(1)) + nn.functional.one_hot(tokens[:, 0], 11)
        return given


def masked_layers() -> list[nn.Module]:
    """The same at every call."""
    torch.manual_seed(0)
    return [Begin(), Middle(), Middle(), End()]


@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("probed", [False, True])
def test_only_tensors_that_need_a_gradient_get_one(recompute: Recompute, split: bool, probed: bool) -> None:
    """Of states, float mask, int64 numbers and bool mask, the states alone; all else is the reference's."""
    tokens, targets = torch.arange(24).reshape(6, 4) % 11, torch.randn(6, 11, dtype=torch.float64)
    twin = masked_layers()
    values: tuple[Tensor, ...] = (tokens,)
    for layer in twin[:-1]:
        values = layer(*values)
    torch.autograd.backward(nn.functional.mse_loss(twin[-1](*values), targets))

    chain = Chain(masked_layers(), (1, 2, 3), recompute=recompute)
    if probed:
        chain.probe(tokens[:3])
    for m in range(2):
        first = chain.stages[0].forward(Passage(0, m), (tokens[3 * m : 3 * m + 3],))
        assert [value.requires_grad for value in first] == [True, False, False, False]
        second = chain.stages[1].forward(Passage(0, m), first)
        assert torch.equal(second[2], tokens[3 * m : 3 * m + 3])
        assert torch.equal(second[3], tokens[3 * m : 3 * m + 3] != 0)
        third = chain.stages[2].forward(Passage(0, m), second)
        target = Target(targets[3 * m : 3 * m + 3], 6.0)
        assert chain.stages[3].forward(Passage(0, m), third, target=target) == ()
    for m in range(2):
        gradients: tuple[Tensor, ...] = ()
        for stage in reversed(chain.stages):
            step = stage.input_backward if split else stage.backward
            gradients = step(Passage(0, m), gradients)
            assert len(gradients) == (0 if stage is chain.stages[0] else 1)
            if split:
                stage.weight_backward(Passage(0, m))
    assert_same_gradients(chain.layers, twin)


class Pair(nn.Module):
    """One tensor becomes two."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, h] -> [B, h], [B, h]."""
        return x.sin(), x.cos()


class OneOfTwo(nn.Module):
    """Ignores its second input in every other forward."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16, dtype=torch.float64)
        self.ignores = False

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """[B, h], [B, h] -> [B, h]."""
        given: Tensor = self.linear(first) if self.ignores else self.linear(first * second)
        return given


@pytest.mark.parametrize("split", [False, True])
def test_an_input_that_is_ignored_for_some_micro_batches_gets_zeros(split: bool) -> None:
    """Two gradients arrive for every micro-batch, and everything is the reference's."""

    def layers() -> list[nn.Module]:
        return [*tanh_layers(1), Pair(), OneOfTwo()]

    torch.manual_seed(3)
    one, twin = layers(), None
    twin = [type(layer)() if isinstance(layer, Pair) else layer for layer in layers()]
    for layer, other in zip(one, twin, strict=True):
        other.load_state_dict(layer.state_dict())
    inputs, targets = samples(8)
    chain = Chain(one, (3,))
    chain.probe(inputs[:2])
    chooser, twins_chooser = one[-1], twin[-1]
    for m in range(4):
        for each in (chooser, twins_chooser):
            assert isinstance(each, OneOfTwo)
            each.ignores = m % 2 == 1
        values, target = inputs[2 * m : 2 * m + 2], targets[2 * m : 2 * m + 2]
        chain.forward(values, target, micro_batch=m, total=8.0)
        hidden = nn.Sequential(*twin[:3])(values)
        torch.autograd.backward(nn.functional.mse_loss(twins_chooser(*hidden), target) / 4)
    for m in range(4):
        last, first = chain.stages[1], chain.stages[0]
        gradients = (last.input_backward if split else last.backward)(Passage(0, m), ())
        assert [tuple(gradient.shape) for gradient in gradients] == [(2, 16), (2, 16)]
        assert bool(gradients[1].any()) is (m % 2 == 0)
        (first.input_backward if split else first.backward)(Passage(0, m), gradients)
        if split:
            last.weight_backward(Passage(0, m))
            first.weight_backward(Passage(0, m))
    assert_same_gradients(one, twin)


@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("frozen", [range(4), range(8, 12), range(1), range(12, 16), range(16)])
def test_frozen_layers_pass_gradients_on_and_get_none(
    recompute: Recompute, split: bool, frozen: range
) -> None:
    """A fully frozen first, middle or last stage, a frozen layer, and a frozen model all finish."""
    inputs, targets = samples(8)
    layers, twin = tanh_layers(), tanh_layers()
    for place in frozen:
        layers[place].requires_grad_(False)
        twin[place].requires_grad_(False)
    loss = nn.functional.mse_loss(nn.Sequential(*twin)(inputs), targets)
    if len(frozen) < 16:
        torch.autograd.backward(loss)
    chain = Chain(layers, (4, 8, 12), recompute=recompute)
    chain.probe(inputs[:4])
    assert chain.train(inputs, targets, micro_batches=2, split=split) == pytest.approx(loss.item(), abs=1e-12)
    assert_same_gradients(layers, twin)


@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_a_first_stage_of_token_numbers_can_be_recomputed(recompute: Recompute) -> None:
    """The embedding's gradients are the reference's though no input has one."""
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Embedding(9, 16, dtype=torch.float64), *tanh_layers(2)]
    tokens = torch.arange(8).reshape(8)
    _, expected = reference(layers, tokens, samples(8)[1])
    chain = Chain(layers, (2, 3), recompute=recompute)
    chain.train(tokens, samples(8)[1], micro_batches=4)
    assert_same_gradients(layers, expected)


@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("split", [False, True])
def test_a_stage_without_parameters_or_without_layers_passes_everything_on(
    recompute: Recompute, split: bool
) -> None:
    """Its W has nothing to do."""
    inputs, targets = samples(8)
    layers = [*tanh_layers(2), nn.Sigmoid(), nn.Tanh(), *tanh_layers(1)]
    _, expected = reference(layers, inputs, targets)
    chain = Chain(layers, (4, 4, 6), recompute=recompute)
    chain.train(inputs, targets, micro_batches=2, split=split)
    assert_same_gradients(layers, expected)


class Sometimes(nn.Module):
    """Needs a gradient for positive inputs only."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        """Of the values, not of the shapes."""
        return x * self.weight if x.sum() > 0 else x


def test_a_need_for_gradients_that_depends_on_values_is_refused() -> None:
    """Nobody would send the gradient: the error says which output."""
    stage = Stage([Sometimes()])
    assert stage.probe((Spec((2,), torch.float32, False),)) == (Spec((2,), torch.float32, False),)
    with pytest.raises(
        ModelError, match="output 0 of 1 needs a gradient for this micro-batch and needed none"
    ):
        stage.forward(Passage(0, 0), (torch.ones(2),))


@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_layers_that_work_in_place_may_begin_a_stage(recompute: Recompute) -> None:
    """Neither what another stage saved nor the user's data is overwritten."""

    def layers(inplace: bool = False) -> list[nn.Module]:
        torch.manual_seed(0)
        return [
            nn.ELU(inplace=inplace),
            nn.Linear(16, 16, dtype=torch.float64),
            nn.Sigmoid(),
            nn.Sequential(nn.ReLU(inplace=inplace), nn.Linear(16, 16, dtype=torch.float64)),
        ]

    inputs, targets = samples(8)
    _, expected = reference(layers(), inputs, targets)
    chain = Chain(layers(inplace=True), (3,), recompute=recompute)
    chain.train(inputs, targets, micro_batches=2)
    assert torch.equal(inputs, samples(8)[0])
    assert_same_gradients(chain.layers, expected)


class Overwrites(nn.Module):
    """Changes its input without saying so; not in its first `spared` forwards."""

    def __init__(self, spared: int = 0) -> None:
        super().__init__()
        self.spared = spared

    def forward(self, x: Tensor) -> Tensor:
        """[B, h] -> [B, h]."""
        self.spared -= 1
        return x * 2 if self.spared >= 0 else x.mul_(2)


@pytest.mark.parametrize("cut_at_layers", [False, True])
@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_layers_that_work_in_place_unawares_may_begin_a_stage_too(
    recompute: Recompute, cut_at_layers: bool
) -> None:
    """Found out in the first forward, wherever the graph is cut."""

    def layers(spared: int = 0) -> list[nn.Module]:
        torch.manual_seed(0)
        linears = [nn.Linear(16, 16, dtype=torch.float64) for _ in range(2)]
        return [Overwrites(spared), linears[0], nn.Sigmoid(), Overwrites(spared), linears[1]]

    inputs, targets = samples(8)
    _, expected = reference(layers(spared=99), inputs, targets)
    chain = Chain(layers(), (3,), recompute=recompute, cut_at_layers=cut_at_layers)
    chain.train(inputs, targets, micro_batches=2)
    assert torch.equal(inputs, samples(8)[0])
    assert_same_gradients(chain.layers, expected)


def test_an_input_changed_in_place_at_times_cannot_be_recomputed() -> None:
    """The second forward would read something else."""
    stage = Stage([Overwrites(spared=1)], first_layer=3, recompute="stage")
    stage.forward(Passage(0, 0), (torch.ones(2),))
    with pytest.raises(ModelError, match="layer 3 changed its input in place"):
        stage.forward(Passage(0, 1), (torch.ones(2),))


class Penalty(nn.Module):
    """Differentiates within its forward."""

    def forward(self, x: Tensor) -> Tensor:
        """X plus the gradient of the sum of its sines."""
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(leaf.sin().sum(), leaf)
        return x + slope


def test_a_layer_that_differentiates_runs_where_its_graph_is_kept() -> None:
    """And recomputation refuses it by name of the reason."""
    given = Stage([Penalty()]).forward(Passage(0, 0), (torch.zeros(2),))
    assert torch.equal(given[0], torch.ones(2))
    with pytest.raises(ModelError, match="differentiates within its own forward"):
        Stage([Penalty()], recompute="stage").forward(Passage(0, 0), (torch.zeros(2),))
