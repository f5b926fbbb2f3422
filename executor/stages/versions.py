"""Which weights does a forward read, where updates do not wait for the pipeline to drain?

PipeDream and PipeDream-2BW keep old versions: an update makes new leaves and leaves those alone that live
graphs saved, so that every backward differentiates the weights of its own forward. The optimizer goes on with
the new leaves. The gradients of all versions are added up in one place: their `grad` is one tensor.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakSet

import torch
from torch import nn

from executor.errors import ExecutorError


@dataclass(eq=False)
class Version:
    """The weights of a stage between two optimizer steps."""

    number: int
    """Optimizer steps before it."""
    layers: tuple[Mapping[str, nn.Parameter], ...]
    """Leaves by their name within their layer."""
    newest: bool = True
    """Whether they are the modules' own."""


class Weights(Protocol):
    """How the weights of a stage are read and replaced."""

    def read(self, version: int) -> Version | None:
        """What a forward reads; None for the modules' own weights, whatever they are."""

    def saving(self) -> AbstractContextManager[Any] | None:
        """Around a forward whose graph is kept; None for nothing."""

    def updating(
        self, optimizer: torch.optim.Optimizer, version: int, /
    ) -> AbstractContextManager[Mapping[nn.Parameter, nn.Parameter]]:
        """Around the optimizer step that makes a version; gives the leaves that took the place of others."""


class NewestWeights:
    """One copy, changed in place between iterations: every synchronous schedule."""

    def read(self, version: int) -> None:
        """The modules' own."""

    def saving(self) -> AbstractContextManager[Any] | None:
        """Nothing special."""
        return None

    def updating(
        self, _optimizer: torch.optim.Optimizer, _version: int, /
    ) -> AbstractContextManager[Mapping[nn.Parameter, nn.Parameter]]:
        """Nothing special."""
        return nullcontext({})


class StashedWeights:
    """Versions side by side, as many as forwards may still read and live passages have read."""

    def __init__(self, modules: Sequence[nn.Module], *, readable: int = 1) -> None:
        """`readable` newest versions may be read by forwards to come: 1 for PipeDream, 2 for PipeDream-2BW.

        Every parameter gets a `grad` if it has none, which all its versions share: zero it, do not drop it.
        """
        self._modules = tuple(modules)
        for parameter in {id(p): p for module in modules for p in module.parameters()}.values():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._readable = readable
        self._versions = [Version(0, self._own())]
        self._alive: WeakSet[Version] = WeakSet(self._versions)

    @property
    def alive(self) -> int:
        """Versions in memory."""
        return len(self._alive)

    @property
    def newest(self) -> int:
        """The number of the modules' own version."""
        return self._versions[-1].number

    def read(self, version: int) -> Version:
        """Exactly that version."""
        for held in self._versions:
            if held.number == version:
                return held
        numbers = [held.number for held in self._versions]
        raise ExecutorError(
            f"a forward reads version {version} of the weights, and versions {numbers} are held: the program "
            f"and the number of readable versions ({self._readable}) do not fit"
        )

    def restart(self) -> None:
        """Count from 0 anew, as every program does: no older version is read again."""
        del self._versions[:-1]
        self._versions[-1].number = 0

    def saving(self) -> None:
        """Nothing special: graphs save the leaves of their version."""

    @contextmanager
    def updating(
        self, optimizer: torch.optim.Optimizer, version: int, /
    ) -> Iterator[Mapping[nn.Parameter, nn.Parameter]]:
        """Give the modules and the optimizer new leaves, which the step within then changes in place.

        The mapping has every old leaf with its new one, for whoever else holds leaves.
        """
        if version != self.newest + 1:
            raise ExecutorError(f"an update makes version {version} and version {self.newest} is the newest")
        replaced = self._replace()
        _move(optimizer, replaced)
        self._versions[-1].newest = False
        self._versions.append(Version(version, self._own()))
        self._alive.add(self._versions[-1])
        del self._versions[: -self._readable]
        yield replaced

    def _replace(self) -> dict[nn.Parameter, nn.Parameter]:
        """New leaves in the modules, with the values and the gradients of the old ones."""
        replaced: dict[nn.Parameter, nn.Parameter] = {}
        for module in self._modules:
            for owner in module.modules():
                for name, old in list(owner.named_parameters(recurse=False, remove_duplicate=False)):
                    if old.requires_grad:
                        if old not in replaced:
                            replaced[old] = _successor(old)
                        setattr(owner, name, replaced[old])
        return replaced

    def _own(self) -> tuple[dict[str, nn.Parameter], ...]:
        return tuple(dict(module.named_parameters(remove_duplicate=False)) for module in self._modules)


def _successor(old: nn.Parameter) -> nn.Parameter:
    new = nn.Parameter(old.detach().clone())
    new.grad = old.grad
    return new


def _move(optimizer: torch.optim.Optimizer, replaced: Mapping[nn.Parameter, nn.Parameter]) -> None:
    """Have an optimizer go on with other leaves, and with the state that it had of the old ones."""
    for group in optimizer.param_groups:
        group["params"] = [replaced.get(parameter, parameter) for parameter in group["params"]]
    for old, new in replaced.items():
        if old in optimizer.state:
            optimizer.state[new] = optimizer.state.pop(old)
