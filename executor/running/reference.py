"""What does one process make of the same mini-batches? What a pipeline's weights must equal."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from executor.models.loss import Loss
from executor.stages.seeding import seed_layer
from executor.values import Batch, Tensors, as_tensors


@dataclass
class Learnt:
    """The state of a model after some steps in one process."""

    losses: list[float] = field(default_factory=list)
    gradients: dict[str, Tensor] = field(default_factory=dict)
    """Of the last step, by layers.<i>.<name>, before clipping."""
    weights: dict[str, Tensor] = field(default_factory=dict)


def learn(
    layers: Sequence[nn.Module],
    loss: Loss,
    batches: Iterable[Batch],
    *,
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    micro_batches: int = 1,
    parts: int = 1,
    clip_norm: float | None = None,
    seed: int = 0,
) -> Learnt:
    """Train all layers as they are, an optimizer step for each mini-batch.

    With several micro-batches, and parts of each, a mini-batch is cut as the pipelines of `micro_batches` in
    all would cut it (halving has two parts), so that dropout draws the same masks; the gradient is
    Σ n·g / Σn, whatever their number.
    """
    model = nn.ModuleList(layers).train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    stepper = optimizer(trained) if trained else None
    learnt = Learnt()
    for iteration, (inputs, targets) in enumerate(batches):
        model.zero_grad()
        pieces = _cut((*as_tensors(inputs), targets), micro_batches, parts)
        total = sum(loss.count(target) for _, (*_, target) in pieces) or 1.0
        summed = 0.0
        for (number, part), (*values, target) in pieces:
            draw = {"iteration": iteration, "micro_batch": number, "part": part}
            mean = loss.loss_function(_forward(layers, tuple(values), seed=seed, **draw), target)
            count = loss.count(target)
            if mean.requires_grad:
                torch.autograd.backward(mean, torch.full_like(mean, count / total))
            summed += count * mean.item()
        learnt.losses.append(summed / total)
        learnt.gradients = {name: gradient.to_dense().clone() for name, gradient in _gradients(layers)}
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(trained, clip_norm)
        if stepper is not None:
            stepper.step()
    learnt.weights = {f"layers.{name}": value.detach().clone() for name, value in model.state_dict().items()}
    return learnt


def _cut(tensors: Tensors, micro_batches: int, parts: int) -> list[tuple[tuple[int, int], Tensors]]:
    """((micro-batch, part), its piece of every tensor), in order."""
    cut = [[piece.chunk(parts) for piece in torch.tensor_split(tensor, micro_batches)] for tensor in tensors]
    return [
        ((number, part), tuple(pieces[number][part] for pieces in cut))
        for number in range(micro_batches)
        for part in range(parts)
    ]


def _forward(layers: Sequence[nn.Module], values: Tensors, *, seed: int, **draw: int) -> Tensors:
    for number, layer in enumerate(layers):
        seed_layer(seed, layer=number, **draw)
        values = as_tensors(layer(*values))
    return values


def _gradients(layers: Sequence[nn.Module]) -> list[tuple[str, Tensor]]:
    return [
        (f"layers.{number}.{name}", parameter.grad)
        for number, layer in enumerate(layers)
        for name, parameter in layer.named_parameters()
        if parameter.grad is not None
    ]
