"""A user's model whose second layer fails on the sample of micro-batch 3, after it has printed something."""

from typing import Any

import torch
from torch import Tensor, nn


class Scale(nn.Module):
    """Multiplies by a weight."""

    def __init__(self, *, faulty: bool) -> None:
        super().__init__()
        self.weight, self._faulty = nn.Parameter(torch.ones(1)), faulty

    def forward(self, value: Tensor) -> Tensor:
        """The sample of micro-batch 3 is 3."""
        if self._faulty and value.max() == 3:
            print("printed before the fault")  # noqa: T201
            raise ZeroDivisionError("no such scale")
        return value * self.weight


class Model:
    """What a factory gives, see `executor.models.factories`."""

    @property
    def layers(self) -> list[nn.Module]:
        """Two stages of one."""
        return [Scale(faulty=False), Scale(faulty=True)]

    def loss(self, output: Tensor, target: Tensor) -> Tensor:
        """Mean squared error."""
        return ((output - target) ** 2).mean()

    def batch(self, samples: int, *, seed: int) -> Any:
        """Sample number i is i."""
        values = torch.arange(float(samples)).reshape(-1, 1)
        return values, values


def make() -> Model:
    """The factory."""
    return Model()
