"""What does a stage keep alive, and for how long?"""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executor.stages.stage import Recompute, Stage
from executor.works import Passage, Target
from tests.executor.chain import Chain, assert_same_gradients, reference, samples, tanh_layers

RECOMPUTE: tuple[Recompute, ...] = ("none", "stage", "layer")


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only counting frees what is let go."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Watch(nn.Module):
    """Hands on its input, which its graph needs, and remembers it weakly."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[weakref.ref[Tensor]] = []
        self.hooked = 0

    def forward(self, x: Tensor) -> Tensor:
        """[B, h] -> [B, h]."""
        self.seen.append(weakref.ref(x))
        if x.requires_grad:
            x.register_hook(self.count)  # type: ignore[no-untyped-call]
        given: Tensor = Sine()(x)
        return given

    def count(self, gradient: Tensor) -> None:
        """A hook as users write them."""
        self.hooked += 1

    @property
    def alive(self) -> int:
        """Inputs that are still in memory."""
        return sum(one() is not None for one in self.seen)


class Keeping(torch.autograd.Function):
    """Its node holds its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        """[B, h] -> [B, h]."""
        ctx.x = x
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """[B, h] -> [B, h]."""
        given: Tensor = gradient * ctx.x.cos()
        return given


class Sine(nn.Module):
    """Keeps its input for the backward."""

    def forward(self, x: Tensor) -> Tensor:
        """[B, h] -> [B, h]."""
        kept: Tensor = Keeping.apply(x)  # type: ignore[no-untyped-call]
        return kept


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("split", [False, True])
def test_boundary_tensors_live_as_long_as_the_schedule_says(split: bool) -> None:
    """1F1B with 3 alive: after each operation as many inputs as micro-batches live; 0 at last."""
    watch = Watch()
    stage = Stage([watch, *tanh_layers(2)])
    live = 0
    for kind, m in [("F", 0), ("F", 1), ("F", 2), ("B", 0), ("F", 3), ("B", 1), ("B", 2), ("B", 3)]:
        passage = Passage(0, m)
        if kind == "F":
            given = stage.forward(passage, (samples(4)[0].requires_grad_(),))
            kept = weakref.ref(given[0])
            del given
            assert kept() is None  # the graph holds no output; the runtime's reference was the last
            live += 1
        else:
            gradient = torch.ones(4, 16, dtype=torch.float64)
            if split:
                stage.input_backward(passage, (gradient,))
                stage.weight_backward(passage)
            else:
                stage.backward(passage, (gradient,))
            live -= 1
        assert watch.alive == stage.live.passages == live
    assert live == 0


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("split", [False, True])
def test_nothing_is_left_after_a_step(recompute: Recompute, split: bool) -> None:
    """No tensor outlives its micro-batch but gradients and losses, of which none has a graph."""
    inputs, targets = samples(8)
    chain = Chain(tanh_layers(), (4, 8), recompute=recompute)
    chain.probe(inputs[:2])
    chain.train(inputs, targets, micro_batches=4, split=split)  # makes the gradients
    before = _tensors()
    chain.train(inputs, targets, micro_batches=4, split=split)
    assert _tensors() == before


def _tensors() -> int:
    return sum(issubclass(type(one), Tensor) for one in gc.get_objects())


@pytest.mark.usefixtures("no_collector")
def test_a_kept_loss_keeps_no_graph() -> None:
    """With all losses kept, the inputs of the last stage are gone after their backward."""
    watch = Watch()
    chain = Chain([watch, *tanh_layers(1)], ())
    inputs, targets = samples(8)
    for m in range(8):
        chain.forward(inputs[m : m + 1].requires_grad_(), targets[m : m + 1], micro_batch=m, total=8.0)
        chain.backward(micro_batch=m)
    assert watch.alive == 0
    losses = [chain.stages[0].take_loss(Passage(0, m)) for m in range(8)]
    assert not any(loss.requires_grad for loss in losses)


@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("split", [False, True])
def test_hooks_on_boundary_inputs_fire_once_for_each_micro_batch(recompute: Recompute, split: bool) -> None:
    """In 10 steps of 4, though every micro-batch comes in the same receive buffer."""
    watch = Watch()
    stage = Stage([watch, *tanh_layers(2)], recompute=recompute)
    buffer = samples(4)[0].requires_grad_()
    gradient = torch.ones(4, 16, dtype=torch.float64)
    for step in range(10):
        for m in range(4):
            stage.forward(Passage(step, m), (buffer,))
        for m in range(4):
            (stage.input_backward if split else stage.backward)(Passage(step, m), (gradient,))
            if split:
                stage.weight_backward(Passage(step, m))
        assert watch.hooked == 4 * (step + 1)
    assert buffer.grad is None


def test_weights_have_no_gradient_until_their_pass() -> None:
    """After I they have none, after W the reference's, and only of the micro-batches whose W has run."""
    inputs, targets = samples(8)
    _, expected = reference(tanh_layers(2), inputs, targets)
    chain = Chain(tanh_layers(2), ())
    (stage,) = chain.stages
    for m in range(2):
        chain.forward(inputs.chunk(2)[m].requires_grad_(), targets.chunk(2)[m], micro_batch=m, total=8.0)
        stage.input_backward(Passage(0, m), ())
    assert all(parameter.grad is None for layer in chain.layers for parameter in layer.parameters())
    assert stage.live.pending_weights == 2
    for m in range(2):
        stage.weight_backward(Passage(0, m))
    assert_same_gradients(chain.layers, expected)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("recompute", ["stage", "layer"])
def test_recomputed_activations_are_no_more_than_pending_weights(recompute: Recompute) -> None:
    """A schedule with at most 2 pending W: graphs in memory stay at most 2 for each segment."""
    stage = Stage(tanh_layers(2), recompute=recompute)
    segments = 1 if recompute == "stage" else 4
    gradient = torch.ones(2, 16, dtype=torch.float64)
    pending: list[Passage] = []
    for m in range(6):
        stage.forward(Passage(0, m), (samples(2)[0].requires_grad_(),))
    for m in range(6):
        stage.input_backward(Passage(0, m), (gradient,))
        pending.append(Passage(0, m))
        assert stage.live.recomputed <= segments * stage.live.pending_weights
        if len(pending) == 2:
            stage.weight_backward(pending.pop(0))
        assert stage.live.recomputed == segments * len(pending) <= segments * 2
    stage.weight_backward(pending.pop())
    assert stage.live.recomputed == stage.live.pending_weights == stage.live.passages == 0


@pytest.mark.parametrize("recompute", ["stage", "layer"])
def test_activations_can_be_brought_back_early(recompute: Recompute) -> None:
    """RECOMPUTE ahead of B runs the forward once, and B does not run it again."""
    watch = Watch()
    stage = Stage([watch, *tanh_layers(2)], recompute=recompute)
    stage.forward(Passage(0, 0), (samples(2)[0].requires_grad_(),))
    assert (len(watch.seen), stage.live.recomputed) == (1, 0)
    stage.recompute(Passage(0, 0))
    assert (len(watch.seen), stage.live.recomputed) == (2, 1 if recompute == "stage" else 5)
    stage.backward(Passage(0, 0), (torch.ones(2, 16, dtype=torch.float64),))
    assert (len(watch.seen), stage.live.recomputed) == (2, 0)


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("recompute", RECOMPUTE)
def test_a_forward_that_is_run_again_saves_nothing(recompute: Recompute) -> None:
    """What a layer within would save for its backward is gone, unless the graph is kept."""
    watch = Watch()
    stage = Stage([*tanh_layers(2), nn.Sequential(nn.Tanh(), watch)], recompute=recompute)
    stage.forward(Passage(0, 0), (samples(2)[0].requires_grad_(),))
    assert watch.alive == (1 if recompute == "none" else 0)


def test_forgetting_lets_go_of_everything() -> None:
    """As after an error, in the middle of anything."""
    watch = Watch()
    chain = Chain([watch, *tanh_layers(1)], ())
    chain.forward(samples(2)[0].requires_grad_(), samples(2)[1])
    chain.stages[0].input_backward(Passage(0, 0), ())
    chain.stages[0].forget()
    assert (watch.alive, chain.stages[0].live.passages) == (0, 0)
    chain.stages[0].forward(Passage(0, 0), (samples(2)[0],), target=Target(samples(2)[1], 2.0))
