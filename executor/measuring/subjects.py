"""Which layers of a model must be measured, so that all are known? One of each that are alike."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from executor.models.sources import Model
from executor.values import Tensors, as_tensors


@dataclass(frozen=True)
class Subject:
    """The first layer of a type."""

    type: str
    layer: int
    """Its number; that of the loss is the number of layers."""
    follows: str | None
    """Type of the layer before it, whose outputs it takes; None where it takes the samples."""


def first_of_each(types: Sequence[str]) -> list[Subject]:
    """The first layer of each type, in order."""
    return [
        Subject(kind, index, types[index - 1] if index else None)
        for index, kind in enumerate(types)
        if types.index(kind) == index
    ]


def types_of(model: Model, *, device: torch.device, seed: int) -> list[str]:
    """Types of the layers of a model without a description, and of its loss.

    Layers are alike when they print alike and their parameters and inputs have equal shapes, and when they
    are tied to the same others: "layers.2" is the type of layer 2 and of all that are like it.
    """
    values = samples(model, 1, device=device, seed=seed)[0]
    groups = {layer: number for number, group in enumerate(model.tied) for layer, _ in group}
    types: dict[tuple[object, ...], str] = {}
    found = []
    with torch.no_grad():
        for index in range(len(model)):
            (layer,) = model.build([index], device=device)
            specs = tuple((value.shape, value.dtype) for value in values)
            key = (str(layer), _shapes(layer), specs, groups.get(index))
            found.append(types.setdefault(key, f"layers.{index}"))
            values = as_tensors(layer(*values))
    return [*found, "loss"]


def samples(model: Model, count: int, *, device: torch.device, seed: int) -> tuple[Tensors, torch.Tensor]:
    """Inputs and targets of `count` samples on a device."""
    inputs, targets = model.batch(count, seed=seed)
    return tuple(value.to(device) for value in as_tensors(inputs)), targets.to(device)


def _shapes(layer: nn.Module) -> tuple[torch.Size, ...]:
    return tuple(parameter.shape for parameter in layer.parameters())
