"""Does a pipeline learn what one process learns?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, isnan

import torch
import torch.distributed as dist
from torch import Tensor

from executor.running.reference import Learnt
from executor.weights.holdings import RankWeights
from executor.weights.precision import Precision

TOLERANCES: dict[Precision, float] = {"float64": 1e-12, "float32": 1e-5, "bfloat16": 5e-2, "float16": 1e-2}
"""Differences that sums in another order may have, against the largest number of the same kind."""


@dataclass(frozen=True)
class Check:
    """Largest absolute differences from one process; `largest` has the largest number of each kind there."""

    max_gradient_error: float
    """Of the last step, before clipping."""
    max_weight_error: float
    loss_error: float
    largest: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def passes(self, precision: Precision) -> bool:
        """Whether all of it is rounding; what is infinite, or was no number, never is."""
        errors = (self.max_gradient_error, self.max_weight_error, self.loss_error)
        tolerance = TOLERANCES[precision]
        return all(
            isfinite(error) and error <= tolerance * max(1.0, scale)
            for error, scale in zip(errors, self.largest, strict=True)
        )


def compare(
    weights: RankWeights, losses: Sequence[float], learnt: Learnt, *, gradient_factor: float | None = 1.0
) -> Check:
    """Compare what this rank holds.

    gradient_factor: by which gradients were multiplied before the step; None where the rank has only a shard
    of them, and they are not compared.
    """
    state = {one.name(name): value for one in weights.held for name, value in one.layers.state_dict().items()}
    factor = 1.0 if gradient_factor is None else gradient_factor
    gradients = {name: value / factor for name, value in weights.gradients().items()}
    pairs = list(zip(losses, learnt.losses, strict=True))
    return Check(
        _largest_difference(gradients if gradient_factor is not None else {}, learnt.gradients),
        _largest_difference(state, learnt.weights),
        max((inf if isnan(a - b) else abs(a - b) for a, b in pairs), default=0.0),
        (_largest(learnt.gradients), _largest(learnt.weights), max(map(abs, learnt.losses), default=0.0)),
    )


def worst(check: Check) -> Check:
    """The largest differences of all ranks."""
    values = torch.tensor(
        [check.max_gradient_error, check.max_weight_error, check.loss_error], dtype=torch.float64
    )
    values = torch.nan_to_num(values, nan=float("inf"))
    dist.all_reduce(values, dist.ReduceOp.MAX)
    gradient, weight, loss = values.tolist()
    return Check(gradient, weight, loss, check.largest)


def _largest_difference(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """Infinite where something is not a number; a gradient that one process has none of counts as zeros."""
    largest = 0.0
    for name, value in ours.items():
        if value.numel():
            other = theirs[name].detach().cpu().double() if name in theirs else 0.0
            differences = value.detach().cpu().double() - other
            largest = max(largest, torch.nan_to_num(differences, nan=float("inf")).abs().max().item())
    return largest


def _largest(values: Mapping[str, Tensor]) -> float:
    return max((value.abs().max().item() for value in values.values() if value.numel()), default=0.0)
