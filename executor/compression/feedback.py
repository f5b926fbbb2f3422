"""What was not sent of the gradients so far? The residual of error feedback, for every buffer of this rank.

It is in the unit of the gradient itself, without the loss scale, and becomes the new one only with the step:
a step that is skipped leaves it as it was.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

Place = tuple[int, int]
"""Parameter group, and which of its flat buffers."""


@dataclass(frozen=True)
class Unit:
    """The gradients that one collective reduces, on this rank."""

    place: Place
    start: int
    """Where they begin in the flat buffer."""
    gradient: Tensor
    """A view of the buffer [n], which takes the sum."""
    replica: int
    replicas: int

    @property
    def stop(self) -> int:
        """Where they end."""
        return self.start + len(self.gradient)


class Feedback:
    """Residuals of one rank; a buffer that has not been compressed yet has none."""

    def __init__(self) -> None:
        self.residuals: dict[Place, Tensor] = {}
        """[elements without padding] of each flat buffer."""
        self._next: list[tuple[Unit, Tensor]] = []

    def corrected(self, unit: Unit, gradient: Tensor, *, length: int, scale: float) -> Tensor:
        """The gradient [n] with what is owed to it; `length` is that of the whole buffer without padding."""
        residual = self.residuals.get(unit.place)
        if residual is None:
            residual = torch.zeros(length, dtype=gradient.dtype, device=gradient.device)
            self.residuals[unit.place] = residual
        return torch.add(gradient, residual[unit.start : unit.stop], alpha=scale)

    def owe(self, unit: Unit, residual: Tensor, *, scale: float) -> None:
        """What will be owed if the step is made."""
        self._next.append((unit, residual if scale == 1.0 else residual / scale))

    def settle(self, *, stepped: bool) -> None:
        """After the step, or where it was skipped."""
        for unit, residual in self._next if stepped else ():
            if len(residual) == len(self.residuals[unit.place]):
                self.residuals[unit.place] = residual
            else:
                self.residuals[unit.place][unit.start : unit.stop] = residual
        self._next.clear()
