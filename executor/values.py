"""What goes through a model and crosses its cuts, and what is known of it before it comes?"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from executor.errors import BoundaryError, ModelError

Tensors = tuple[Tensor, ...]
"""What crosses a cut: a stage that gives one tensor gives a tuple of one."""

Batch = tuple[Tensors | Tensor, Tensor]
"""Inputs and targets of a whole mini-batch, samples first; every rank is given the same."""


class Spec(NamedTuple):
    """One tensor of a value, as its receiver must allocate it."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    needs_gradient: bool

    @property
    def bytes(self) -> int:
        """Size of the tensor."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize

    def __str__(self) -> str:
        """As a person writes it: float32[2, 3]."""
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


def as_tensors(value: object) -> Tensors:
    """A tensor, or a tuple or list of tensors, as what crosses a cut.

    Raises ModelError naming what else it is: dictionaries, None and nested tuples do not cross cuts.
    """
    if type(value) is Tensor and value.layout == torch.strided:
        return (value,)  # nearly always
    if isinstance(value, Tensor):
        value = (value,)
    if not isinstance(value, tuple | list):
        raise ModelError(
            f"a stage gave {_named(value)}: between stages only a tensor or a tuple of tensors can travel; "
            "return the tensors that the next layer needs"
        )
    for place, item in enumerate(value):
        if not isinstance(item, Tensor):
            raise ModelError(
                f"item {place} of the {len(value)} that a stage gave is {_named(item)}: every item of what "
                "travels between stages must be a tensor; leave it out or make it one"
            )
        if item.layout != torch.strided:
            raise ModelError(
                f"item {place} of the {len(value)} that a stage gave is a {item.layout} tensor of shape "
                f"{list(item.shape)}: only dense tensors travel between stages; use to_dense()"
            )
    return tuple(value)


def specs_of(tensors: Iterable[Tensor], needs_gradient: Sequence[bool] | None = None) -> tuple[Spec, ...]:
    """The specs of a value; which tensors need a gradient is read from them unless given."""
    tensors = tuple(tensors)
    flags = [tensor.requires_grad for tensor in tensors] if needs_gradient is None else needs_gradient
    return tuple(
        Spec(tuple(tensor.shape), tensor.dtype, flag) for tensor, flag in zip(tensors, flags, strict=True)
    )


def gradient_specs(specs: Iterable[Spec]) -> tuple[Spec, ...]:
    """What the gradient message of a value holds: the gradients of the tensors that need one, in order."""
    return tuple(spec._replace(needs_gradient=False) for spec in specs if spec.needs_gradient)


def check(tensors: Sequence[Tensor], specs: Sequence[Spec], *, message: object) -> None:
    """Raise BoundaryError unless the tensors have the announced number, shapes and dtypes.

    `message` says of what, for the error.
    """
    if len(tensors) != len(specs):
        raise BoundaryError(
            f"{message}: {len(tensors)} tensors where {len(specs)} were announced ({_list(specs)}); a stage "
            "must give the same number of tensors for every micro-batch"
        )
    for place, (tensor, spec) in enumerate(zip(tensors, specs, strict=True)):
        if tensor.shape != spec.shape or tensor.dtype != spec.dtype:
            found = Spec(tuple(tensor.shape), tensor.dtype, needs_gradient=False)
            raise BoundaryError(
                f"{message}: tensor {place} is {found} where {spec} was announced; shapes and dtypes between "
                "stages must follow from the shapes of the inputs, not from their values"
            )


def _named(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _list(specs: Sequence[Spec]) -> str:
    return ", ".join(map(str, specs)) or "none"
