"""How is a forward computed a second time as if its buffers had not moved on?

Batch normalisation and its like change buffers in every forward. Running statistics are updated once for
each micro-batch (each half of one, under halving), in the order in which a replica runs them; a recomputation
reads what its forward read, and changes a copy.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

Named = Mapping[str, Tensor]
"""Values by their names within a layer."""


class ChangingBuffers:
    """Which buffers of some layers a forward changes: found out by comparing, in the first."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._modules = tuple(modules)
        self._names: list[tuple[str, ...]] = [_names(module) for module in modules]
        self._known = not any(self._names)

    def copies(self) -> list[dict[str, Tensor]]:
        """The values of the changing buffers, layer by layer; of all buffers until those are known."""
        return [
            {name: module.get_buffer(name).detach().clone() for name in names}
            for module, names in zip(self._modules, self._names, strict=True)
        ]

    def learn(self, before: Sequence[Named]) -> list[dict[str, Tensor]]:
        """What of `before`, the copies from ahead of a forward, must be kept for its recomputation."""
        if not self._known:
            self._known = True
            self._names = [
                tuple(name for name, value in values.items() if not _same(value, module.get_buffer(name)))
                for module, values in zip(self._modules, before, strict=True)
            ]
        return [
            {name: values[name] for name in names} for names, values in zip(self._names, before, strict=True)
        ]


def all_copies(modules: Iterable[nn.Module]) -> list[dict[str, Tensor]]:
    """Copies of every buffer, for a forward that must leave no trace."""
    return [{name: module.get_buffer(name).detach().clone() for name in _names(module)} for module in modules]


def _names(module: nn.Module) -> tuple[str, ...]:
    return tuple(name for name, _ in module.named_buffers())


def _same(value: Tensor, other: Tensor) -> bool:
    return value.shape == other.shape and torch.equal(value, other)
