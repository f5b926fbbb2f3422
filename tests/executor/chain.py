"""Stages chained by hand in one process, and the network of the reports against other systems."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from executor.models.loss import Loss, mean_squared_error
from executor.stages.stage import Stage
from executor.values import Tensors, specs_of
from executor.works import Passage, Target

Layers = list[nn.Module]


def tanh_layers(pairs: int = 8, width: int = 16) -> Layers:
    """Linear and Tanh in turn, float64, the same at every call."""
    torch.manual_seed(0)
    return [
        layer for _ in range(pairs) for layer in (nn.Linear(width, width, dtype=torch.float64), nn.Tanh())
    ]


def samples(count: int, width: int = 16) -> tuple[Tensor, Tensor]:
    """Inputs and targets, the same at every call."""
    generator = torch.Generator().manual_seed(1)
    inputs, targets = torch.randn(2, count, width, dtype=torch.float64, generator=generator)
    return inputs, targets


class Chain:
    """The stages of a model, one behind the other; values go from one to the next as they are."""

    def __init__(
        self, layers: Layers, cuts: Sequence[int], *, loss: Loss | None = None, **options: Any
    ) -> None:
        """`cuts` are the numbers of the layers that stages begin with, after the first."""
        starts, ends = [0, *cuts], [*cuts, len(layers)]
        self.layers = layers
        self.stages = [
            Stage(
                layers[start:end],
                first_layer=start,
                loss=(loss or mean_squared_error()) if end == len(layers) else None,
                **options,
            )
            for start, end in zip(starts, ends, strict=True)
        ]

    def probe(self, *inputs: Tensor, parts: int = 1) -> None:
        """Let every stage know what it will get."""
        specs = specs_of(inputs)
        for stage in self.stages:
            specs = stage.probe(specs, parts=parts)

    def forward(
        self, inputs: Tensors | Tensor, target: Tensor | None, *, micro_batch: int = 0, **options: Any
    ) -> Tensors:
        """One micro-batch through all stages; `total` is the sum of denominators, 1 unless given."""
        total = options.pop("total", 1.0)
        passage = Passage(options.pop("iteration", 0), micro_batch)
        values = (inputs,) if isinstance(inputs, Tensor) else inputs
        for stage in self.stages:
            last = stage is self.stages[-1] and target is not None
            values = stage.forward(
                passage,
                values,
                target=Target(target, total) if last and target is not None else None,
                **options,
            )
        return values

    def backward(
        self, gradients: Tensors = (), *, micro_batch: int = 0, part: int = 0, split: bool = False
    ) -> Tensors:
        """The backward of one micro-batch; in two steps if split."""
        passage = Passage(0, micro_batch)
        for stage in reversed(self.stages):
            gradients = (stage.input_backward if split else stage.backward)(passage, gradients, part=part)
        if split:
            for stage in self.stages:
                stage.weight_backward(passage, part=part)
        return gradients

    def train(self, inputs: Tensor, targets: Tensor, *, micro_batches: int, **options: Any) -> float:
        """All forwards, then all backwards; the mean loss, added up in the order of the micro-batches."""
        total = float(len(targets))
        split = options.pop("split", False)
        parts = options.get("parts", 1)
        pairs = list(zip(inputs.chunk(micro_batches), targets.chunk(micro_batches), strict=True))
        for m, (values, target) in enumerate(pairs):
            self.forward(values, target, micro_batch=m, total=total, **options)
        for m in range(micro_batches):
            for part in range(parts):
                self.backward(micro_batch=m, part=part, split=split)
        losses = [
            len(target) * self.stages[-1].take_loss(Passage(0, m)).item()
            for m, (_, target) in enumerate(pairs)
        ]
        return sum(losses) / total


def reference(
    layers: Layers, inputs: Tensor, targets: Tensor, loss: Callable[..., Tensor] = nn.functional.mse_loss
) -> tuple[float, Layers]:
    """The loss of one process on everything at once, and a copy of the layers with their gradients."""
    copy = deepcopy(layers)
    value = loss(nn.Sequential(*copy)(inputs), targets)
    torch.autograd.backward(value)
    return value.item(), copy


def assert_same_gradients(layers: Layers, expected: Layers, tolerance: float = 1e-12) -> None:
    """Every parameter has the gradient of its twin; none where that has none."""
    for layer, twin in zip(layers, expected, strict=True):
        for (name, parameter), other in zip(layer.named_parameters(), twin.parameters(), strict=True):
            if other.grad is None:
                assert parameter.grad is None or not parameter.grad.any(), name
            else:
                assert parameter.grad is not None, name
                torch.testing.assert_close(parameter.grad, other.grad, rtol=0, atol=tolerance)
