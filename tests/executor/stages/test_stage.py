"""Does a chain of stages learn what one process learns, and refuse what makes no sense?"""

import pytest
import torch
from torch import Tensor, nn

from executor.errors import BoundaryError, ExecutorError, ModelError
from executor.stages.stage import Recompute, Stage
from executor.values import Spec
from executor.works import Passage, Target
from tests.executor.chain import Chain, assert_same_gradients, reference, samples, tanh_layers

RECOMPUTE: tuple[Recompute, ...] = ("none", "stage", "layer")


@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("cut_at_layers", [False, True])
@pytest.mark.parametrize("cuts", [(), (8,), (4, 8, 12), (1, 2, 15)])
def test_stages_learn_what_one_process_learns(
    recompute: Recompute, split: bool, cut_at_layers: bool, cuts: tuple[int, ...]
) -> None:
    """Loss and gradients are those of the whole mini-batch in one graph, however it is cut."""
    inputs, targets = samples(96)
    loss, expected = reference(tanh_layers(), inputs, targets)
    chain = Chain(tanh_layers(), cuts, recompute=recompute, cut_at_layers=cut_at_layers)
    assert chain.train(inputs, targets, micro_batches=8, split=split) == pytest.approx(loss, abs=1e-12)
    assert_same_gradients(chain.layers, expected)
    assert [stage.live.passages for stage in chain.stages] == [0] * len(chain.stages)


@pytest.mark.parametrize("micro_batches", [1, 2, 4, 8, 32])
def test_gradients_do_not_grow_with_the_number_of_micro_batches(micro_batches: int) -> None:
    """The weights n/Σn do all scaling."""
    inputs, targets = samples(96)
    _, expected = reference(tanh_layers(), inputs, targets)
    chain = Chain(tanh_layers(), (8,))
    chain.train(inputs, targets, micro_batches=micro_batches)
    assert_same_gradients(chain.layers, expected)


def test_two_linear_layers_take_one_exact_step() -> None:
    """W = 1, x = 1, y = 0, two micro-batches, learning rate 0.1: both weights become 0.8."""
    layers: list[nn.Module] = [nn.Linear(1, 1, bias=False, dtype=torch.float64) for _ in range(2)]
    for layer in layers:
        nn.init.ones_(layer.get_parameter("weight"))
    optimizer = torch.optim.SGD(nn.ModuleList(layers).parameters(), lr=0.1)
    ones = torch.ones(2, 1, dtype=torch.float64)
    Chain(layers, (1,)).train(ones, torch.zeros_like(ones), micro_batches=2)
    optimizer.step()
    assert [layer.get_parameter("weight").item() for layer in layers] == [0.8, 0.8]


@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("split", [False, True])
def test_halves_give_what_the_whole_gives(recompute: Recompute, split: bool) -> None:
    """One forward of two half-size graphs, and a backward for each, in any order."""
    inputs, targets = samples(24)
    loss, expected = reference(tanh_layers(), inputs, targets)
    chain = Chain(tanh_layers(), (6, 12), recompute=recompute)
    chain.probe(inputs[:6], parts=2)
    assert chain.train(inputs, targets, micro_batches=4, parts=2, split=split) == pytest.approx(
        loss, abs=1e-12
    )
    assert_same_gradients(chain.layers, expected)


def test_an_odd_micro_batch_cannot_be_halved() -> None:
    """The error has the shape and says what to do."""
    stage = Stage(tanh_layers(1))
    with pytest.raises(ModelError, match=r"\[5, 16\] has no 2 equal parts .* choose an even"):
        stage.forward(Passage(0, 0), (samples(5)[0],), parts=2)
    with pytest.raises(ModelError, match="no 2 equal parts"):
        stage.probe((Spec((5, 16), torch.float64, False),), parts=2)


@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_each_micro_batch_has_a_loss_of_its_own(recompute: Recompute) -> None:
    """All forwards come before all backwards, targets differ: input gradients are those of each."""
    inputs, targets = samples(12)
    stage = Chain(tanh_layers(2), (), recompute=recompute).stages[0]
    pieces = [piece.clone().requires_grad_() for piece in inputs.chunk(4)]
    for m, piece in enumerate(pieces):
        stage.forward(Passage(0, m), (piece,), target=Target(targets.chunk(4)[m], 12.0))
    for m, piece in enumerate(pieces):
        (gradient,) = stage.backward(Passage(0, m), ())
        loss = nn.functional.mse_loss(nn.Sequential(*tanh_layers(2))(piece), targets.chunk(4)[m])
        (expected,) = torch.autograd.grad(loss / 4, piece)
        torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-15)


def test_results_of_several_backwards_stay_apart() -> None:
    """B0, B1, and only then what they gave is used."""
    inputs, targets = samples(8)
    _, expected = reference(tanh_layers(), inputs, targets)
    chain = Chain(tanh_layers(), (8,))
    for m in range(2):
        chain.forward(inputs.chunk(2)[m], targets.chunk(2)[m], micro_batch=m, total=8.0)
    first, last = chain.stages
    given = [last.backward(Passage(0, m), ()) for m in range(2)]
    for m in reversed(range(2)):
        first.backward(Passage(0, m), given[m])
    assert_same_gradients(chain.layers, expected)


def test_a_later_step_may_have_other_shapes() -> None:
    """Longer, then more: every step is what one process gives."""
    for shape in ((4, 5, 16), (4, 7, 16), (16, 7, 16)):
        inputs = torch.linspace(-1, 1, 16 * shape[0] * shape[1], dtype=torch.float64).reshape(shape)
        loss, expected = reference(tanh_layers(), inputs, inputs.flip(0))
        chain = Chain(tanh_layers(), (6,), recompute="layer")
        chain.probe(inputs.chunk(2)[0])
        assert chain.train(inputs, inputs.flip(0), micro_batches=2) == pytest.approx(loss, abs=1e-12)
        assert_same_gradients(chain.layers, expected)


def test_one_stage_runs_any_order_of_shapes() -> None:
    """Nothing that a stage learns of one shape is used for another."""
    chain = Chain(tanh_layers(), (6,), recompute="stage")
    layers = tanh_layers()
    for samples_of_step in (8, 4, 8, 16):
        inputs, targets = samples(samples_of_step)
        chain.probe(inputs.chunk(2)[0])
        chain.train(inputs, targets, micro_batches=2)
        torch.autograd.backward(nn.functional.mse_loss(nn.Sequential(*layers)(inputs), targets))
    assert_same_gradients(chain.layers, layers)


def test_probing_tells_specs_and_leaves_no_trace() -> None:
    """Neither gradients, running statistics nor random numbers change."""
    layers: list[nn.Module] = [nn.Embedding(7, 4), nn.Dropout(), nn.BatchNorm1d(5)]
    stage = Stage(layers, recompute="stage")
    statistics = {name: value.clone() for name, value in layers[2].named_buffers()}
    state = torch.get_rng_state()
    assert stage.probe((Spec((3, 5), torch.int64, False),)) == (Spec((3, 5, 4), torch.float32, True),)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(layers[2].get_buffer(name), value) for name, value in statistics.items())
    assert all(parameter.grad is None for layer in layers for parameter in layer.parameters())
    assert stage.live.passages == 0


def test_probing_halves_tells_of_the_whole() -> None:
    """A forward of two halves gives one output."""
    stage = Stage(tanh_layers(1))
    assert stage.probe((samples(6)[0],), parts=2) == (Spec((6, 16), torch.float64, True),)


def test_evaluation_keeps_nothing() -> None:
    """Outputs are those of the modules, without gradients, and no random number is drawn or seeded."""
    chain = Chain(tanh_layers(), (8,))
    values: tuple[Tensor, ...] = (samples(4)[0],)
    state = torch.get_rng_state()
    for stage in chain.stages:
        values = stage.evaluate(values)
    assert torch.equal(values[0], nn.Sequential(*tanh_layers())(samples(4)[0]))
    assert not values[0].requires_grad
    assert torch.equal(torch.get_rng_state(), state)


def test_steps_out_of_order_are_refused() -> None:
    """Each error names the passage and what is missing."""
    stage = Stage(tanh_layers(1))
    passage, ones = Passage(0, 3), torch.ones(2, 16, dtype=torch.float64)
    with pytest.raises(ExecutorError, match=r"part 0 of Passage\(iteration=0, micro_batch=3\) is not in"):
        stage.backward(passage, (ones,))
    stage.forward(passage, (ones.requires_grad_(),))
    with pytest.raises(ExecutorError, match="in this stage already"):
        stage.forward(passage, (ones,))
    with pytest.raises(ExecutorError, match="I comes before W"):
        stage.weight_backward(passage)
    with pytest.raises(BoundaryError, match="0 gradients came for the 1 of 1 outputs"):
        stage.backward(passage, ())
    stage.input_backward(passage, (torch.ones_like(ones),))
    for again in (stage.input_backward, stage.backward):
        with pytest.raises(ExecutorError, match="only W is left"):
            again(passage, (torch.ones_like(ones),))
    stage.weight_backward(passage)
    with pytest.raises(ExecutorError, match="not in this stage"):
        stage.weight_backward(passage)
    with pytest.raises(ExecutorError, match="no loss is kept"):
        stage.take_loss(passage)


def test_an_error_says_in_which_layer_it_arose() -> None:
    """By its number in the model and its class."""
    stage = Stage([nn.Tanh(), nn.Linear(3, 3)], first_layer=4)
    with pytest.raises(RuntimeError) as caught:
        stage.forward(Passage(0, 0), (torch.ones(2, 5),))
    assert caught.value.__notes__ == ["in the forward of layer 5 (Linear)"]


def test_the_scale_of_the_loss_reaches_gradients_and_not_the_loss() -> None:
    """Gradients are exactly 2**10 times as large."""
    inputs, targets = samples(4)
    loss, expected = reference(tanh_layers(1), inputs, targets)
    chain = Chain(tanh_layers(1), ())
    chain.stages[0].loss_scale = 1024.0
    assert chain.train(inputs, targets, micro_batches=1) == loss
    for parameter, other in zip(chain.layers[0].parameters(), expected[0].parameters(), strict=True):
        assert parameter.grad is not None
        assert other.grad is not None
        assert torch.equal(parameter.grad, other.grad * 1024)
