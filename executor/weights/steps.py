"""How does the optimizer of a parameter group step: on the weights themselves, or on float32 masters?

`executor.weights.shards` is the third way: on this rank's shard of either.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from executor.errors import ConfigurationError
from executor.weights.gradients import FlatGradients
from executor.weights.precision import Numerics

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]

Entries = dict[str, dict[str, object]]
"""Optimizer state by parameter name: tensors in the parameter's shape, and scalars."""


class Steps(Protocol):
    """The optimizer of one parameter group."""

    optimizer: Optimizer

    def step(self, factor: float) -> None:
        """Multiply the gradients by `factor`, and step the weights."""

    def move_to(self, leaves: Mapping[str, nn.Parameter]) -> None:
        """Go on with other leaves, which hold the same weights (a new weight version)."""

    def set_masters(self, weights: Mapping[str, Tensor]) -> None:
        """Take the masters from weights of a higher precision, by name; without masters nothing happens."""


class WholeSteps:
    """Steps all weights of the group on this rank, as every replica does."""

    def __init__(
        self, flats: list[FlatGradients], *, optimizer: OptimizerFactory, numerics: Numerics
    ) -> None:
        self._flats = flats
        self.mixed = numerics.mixed
        leaves = {name: copies[0] for flat in flats for name, copies in flat.leaves.items()}
        self.targets = {name: _master(leaf) for name, leaf in leaves.items()} if self.mixed else leaves
        """What the optimizer steps, by name."""
        self.optimizer = made(optimizer, self.targets.values())

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Multiply the gradients by `factor`, and step the weights."""
        for flat in self._flats:
            scale_gradients(flat, factor, mixed=self.mixed)
            if self.mixed:
                self._give_gradients(flat, factor)
        self.optimizer.step()
        for flat in self._flats if self.mixed else ():
            for name, copies in flat.leaves.items():
                copies[0].copy_(self.targets[name])
                self.targets[name].grad = None

    @torch.no_grad()
    def set_masters(self, weights: Mapping[str, Tensor]) -> None:
        """Take the masters from weights of a higher precision, by name; without masters nothing happens."""
        for name in self.targets if self.mixed else ():
            if name in weights:
                self.targets[name].copy_(weights[name])

    def move_to(self, leaves: Mapping[str, nn.Parameter]) -> None:
        """Let the optimizer step new leaves, with the state that it has for the old ones."""
        if not self.mixed:
            exchange(self.optimizer, {id(old): leaves[name] for name, old in self.targets.items()})
            self.targets = {name: leaves[name] for name in self.targets}

    def _give_gradients(self, flat: FlatGradients, factor: float) -> None:
        """Gradients of the masters: views of the float32 buffer, or its copy in float32."""
        for name, view in flat.views.items():
            low = view.dtype != torch.float32
            self.targets[name].grad = view.float().mul_(factor) if low else view


def made(optimizer: OptimizerFactory, targets: Iterable[nn.Parameter]) -> Optimizer:
    """The optimizer of some parameters; raises ConfigurationError where it needs more than gradients."""
    stepped = optimizer(list(targets))
    if isinstance(stepped, torch.optim.LBFGS):
        raise ConfigurationError(
            "LBFGS computes the loss again within a step, which a pipeline cannot: choose an optimizer that "
            "steps from gradients, such as Adam"
        )
    return stepped


def exchange(optimizer: Optimizer, replacements: Mapping[int, nn.Parameter]) -> None:
    """Put other parameters in the place of those with these ids, with their state."""
    for group in optimizer.param_groups:
        for index, old in enumerate(group["params"]):
            new = replacements.get(id(old), old)
            group["params"][index] = new
            if new is not old and old in optimizer.state:
                optimizer.state[new] = optimizer.state.pop(old)


def scale_gradients(flat: FlatGradients, factor: float, *, mixed: bool) -> None:
    """Multiply gradients by a factor; those of a mixed run that are not float32 could underflow, and wait."""
    if factor != 1.0 and not (mixed and flat.flat.dtype != torch.float32):
        flat.flat.mul_(factor)


def _master(leaf: Tensor) -> nn.Parameter:
    return nn.Parameter(leaf.detach().to(torch.float32, copy=True))
