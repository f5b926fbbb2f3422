"""In which precision are weights, gradients and optimizer steps, and how are small float16 gradients kept?

bfloat16 and float16 are mixed: forward and backward on low-precision weights, steps on float32 masters.
"""

from dataclasses import dataclass
from typing import Literal

import torch

Precision = Literal["float64", "float32", "bfloat16", "float16"]

DTYPES: dict[Precision, torch.dtype] = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True)
class Numerics:
    """The precision of a run."""

    precision: Precision = "float32"
    gradient_precision: Literal["float32", "same"] = "float32"
    """In which gradients of a mixed run are added up and synchronised."""

    @property
    def mixed(self) -> bool:
        """Whether float32 masters are stepped instead of the weights."""
        return self.precision in {"bfloat16", "float16"}

    def gradient_dtype(self, weight_dtype: torch.dtype) -> torch.dtype:
        """Of the gradient buffer of weights of a dtype."""
        return torch.float32 if self.mixed and self.gradient_precision == "float32" else weight_dtype


class LossScale:
    """Dynamic scale of the loss: halved when a gradient overflows, doubled after a row of good steps.

    A power of two, so that scaling and unscaling lose nothing. The method of Micikevicius et al., "Mixed
    precision training" (arXiv 1710.03740), section 3.2.
    """

    def __init__(self, value: float = 2.0**16, *, growth_steps: int = 2000) -> None:
        self.value = value
        self.growth_steps = growth_steps
        self.good_steps = 0
        self.skipped = 0

    def overflowed(self) -> None:
        """A gradient was not finite: the step is skipped on every rank."""
        self.value = max(self.value / 2, 1.0)
        self.good_steps = 0
        self.skipped += 1

    def stepped(self) -> None:
        """All gradients were finite."""
        self.good_steps += 1
        if self.good_steps >= self.growth_steps:
            self.value = min(self.value * 2, 2.0**24)
            self.good_steps = 0

    def state(self) -> dict[str, float | int]:
        """What a checkpoint keeps."""
        return {"value": self.value, "good_steps": self.good_steps, "skipped": self.skipped}

    def load(self, state: dict[str, float | int]) -> None:
        """Go on from a checkpoint."""
        self.value = float(state["value"])
        self.good_steps, self.skipped = int(state["good_steps"]), int(state["skipped"])
