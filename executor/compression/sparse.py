"""Which gradients are sent when only the largest are, and how do they travel? As k indices and k values.

A code is int32 [2k]: indices, then the bits of float32 values. Unused places hold index 0 and value 0.
"""

from statistics import NormalDist

import numpy as np
import torch
from torch import Tensor

from executor.compression.positions import positions
from executor.errors import ConfigurationError

_CORRECTIONS = 3
_MOST_ELEMENTS = 2**31 - 1


def select_largest(gradient: Tensor, count: int) -> Tensor:
    """Indices of the `count` largest |g| [count]; what is not a number counts as largest."""
    if gradient.is_cuda:
        return torch.topk(gradient.abs(), count, sorted=False).indices
    # torch sorts more than it must on a CPU: a partition takes 40 % of its time.
    first = len(gradient) - count
    return torch.from_numpy(np.argpartition(gradient.abs().numpy(), first)[first:])


def select_beyond_quantile(gradient: Tensor, count: int) -> Tensor:
    """Indices of at most `count` |g| beyond the quantile that N(mean, std) would have there (Gaussian-K).

    The threshold |mean| + std·Φ⁻¹(1 − k/2n) is halved where fewer than 2k/3 are beyond it, and made half as
    large again where more than 4k/3 are, at most three times; of too many the largest are taken. Nothing is
    sorted but those. What is not finite is beyond any threshold.
    """
    size = gradient.abs()
    deviations = NormalDist().inv_cdf(1 - count / (2 * len(gradient)))
    threshold = gradient.mean().abs() + deviations * gradient.std(correction=0)
    beyond = ~(size <= threshold)
    for _ in range(_CORRECTIONS):
        found = int(beyond.sum())
        if 3 * found < 2 * count:
            threshold = threshold / 2
        elif 3 * found > 4 * count:
            threshold = threshold * 1.5
        else:
            break
        beyond = ~(size <= threshold)
    indices = positions(beyond)
    if len(indices) > count:
        indices = indices[select_largest(gradient[indices], count)]
    return indices


def encode(gradient: Tensor, indices: Tensor, count: int) -> Tensor:
    """The code of the gradients at `indices`, at most `count` of them."""
    if len(gradient) > _MOST_ELEMENTS:
        raise ConfigurationError(
            f"{len(gradient):,} gradients in one collective have indices beyond 32 bits: use more buckets"
        )
    code = torch.zeros(2 * count, dtype=torch.int32, device=gradient.device)
    code[: len(indices)] = indices.int()
    code[count : count + len(indices)] = gradient[indices].float().view(torch.int32)
    return code


def add_decoded(total: Tensor, code: Tensor) -> None:
    """Add what a code holds to `total` [n]."""
    count = len(code) // 2
    values = code[count:].view(torch.float32).to(total.dtype)
    total.index_add_(0, code[:count].long(), values)
