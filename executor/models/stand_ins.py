"""What stands where a module does not own a parameter? A zero of its shape that takes no memory.

One number, expanded to the shape: operations accept it, nothing is allocated, and since it is a plain
attribute no optimizer, state dict or gradient sees it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_REGISTER = "stand_in_names"


@dataclass(frozen=True)
class Place:
    """One place of a model where a parameter is read; tied parameters have several."""

    module: str
    """Name of the module that reads it."""
    attribute: str
    parameter: str
    """Name of the parameter: that of its first place."""

    @property
    def name(self) -> str:
        """The place's own name."""
        return f"{self.module}.{self.attribute}" if self.module else self.attribute


@dataclass(frozen=True)
class Outline:
    """What must be known of a parameter to make it."""

    shape: torch.Size
    dtype: torch.dtype


def places_of(model: nn.Module) -> tuple[Place, ...]:
    """Every place of every parameter, in the order of the modules."""
    first: dict[int, str] = {}
    found = []
    for module_name, module in model.named_modules():
        for attribute, parameter in module._parameters.items():
            if parameter is not None:
                name = f"{module_name}.{attribute}" if module_name else attribute
                found.append(Place(module_name, attribute, first.setdefault(id(parameter), name)))
    return tuple(found)


def empty_out(module: nn.Module, attribute: str) -> None:
    """Put a stand-in where `module` has a parameter."""
    parameter = module._parameters[attribute]
    if parameter is not None:
        del module._parameters[attribute]
        put(module, attribute, _zeros(parameter.shape, dtype=parameter.dtype, device=torch.device("cpu")))


def put(module: nn.Module, attribute: str, stand_in: Tensor) -> None:
    """Make `stand_in` what `module` reads there."""
    module.__dict__[attribute] = stand_in
    module.__dict__[_REGISTER] = (*module.__dict__.get(_REGISTER, ()), attribute)


def fill_in(module: nn.Module, attribute: str, parameter: nn.Parameter) -> None:
    """Put a real parameter where `module` has a stand-in."""
    if attribute in module.__dict__:
        del module.__dict__[attribute]
        module.__dict__[_REGISTER] = tuple(name for name in module.__dict__[_REGISTER] if name != attribute)
    module.register_parameter(attribute, parameter)


def has_stand_ins(module: nn.Module) -> bool:
    """Whether the module itself, not its children, lacks parameters."""
    return bool(module.__dict__.get(_REGISTER))


def convert(module: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
    """Move or cast the stand-ins of a module and its children as `change` does with a tensor."""
    for owner, attribute, stand_in in _stand_ins(module):
        number = change(stand_in.new_zeros(()))
        owner.__dict__[attribute] = _zeros(stand_in.shape, dtype=number.dtype, device=number.device)


def _stand_ins(module: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    for owner in module.modules():
        for attribute in owner.__dict__.get(_REGISTER, ()):
            yield owner, attribute, owner.__dict__[attribute]


def _zeros(shape: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros((), dtype=dtype, device=device).expand(shape)
