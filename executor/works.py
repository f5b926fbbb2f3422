"""What must a stage be able to do, so that a program can run on it?"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from executor.values import Spec, Tensors


class Passage(NamedTuple):
    """One micro-batch on its way through a stage."""

    iteration: int
    micro_batch: int
    """Its number within the whole mini-batch, over all pipeline groups."""


@dataclass(frozen=True)
class Target:
    """What the last stage compares its output with."""

    tensor: Tensor
    """Of one micro-batch."""
    total: float
    """Σn: the loss's own denominators, summed over the whole mini-batch."""
    count: float | None = None
    """n of this micro-batch, where it has been counted already: on a device counting waits for it."""


class Work(Protocol):
    """One replica of a stage: real layers (`executor.stages`) or durations (`executor.trials.emulation`).

    Values are what crosses its cuts; a gradient has a tensor for each value with `needs_gradient`.
    """

    def probe(self, inputs: tuple[Spec, ...], *, parts: int = 1) -> tuple[Spec, ...]:
        """What a forward gives for such inputs, without any effect on the stage."""

    def forward(
        self,
        passage: Passage,
        inputs: Tensors,
        *,
        parts: int = 1,
        version: int = 0,
        target: Target | None = None,
    ) -> Tensors:
        """Detached outputs; of a last stage with a target none, its loss is kept."""

    def backward(self, passage: Passage, gradients: Tensors, *, part: int = 0) -> Tensors:
        """Gradients of the inputs that need one; the parameters' are added up."""

    def input_backward(self, passage: Passage, gradients: Tensors, *, part: int = 0) -> Tensors:
        """Gradients of the inputs alone; `weight_backward` is still to come."""

    def weight_backward(self, passage: Passage, *, part: int = 0) -> None:
        """Add up the parameters' gradients of a passage whose inputs have theirs."""

    def recompute(self, passage: Passage, *, part: int = 0) -> None:
        """Bring back early what the backward needs."""
