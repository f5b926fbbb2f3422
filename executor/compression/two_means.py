"""How does a gradient travel as two numbers? A2SGD (arXiv 2006.07405): the means of its two signs.

P = {g >= 0} and N = {g < 0} have the means μ₊ and μ₋ (0 where empty); the error ε = g − μ stays here and is
used in the same step: ĝ = ε + μ̄, with the μ̄ of all replicas on this replica's own P and N.

Gradients here are summed over R replicas, each holding its share of the mean, where the paper averages whole
ones: so ĝ = R·ε + Σ μ, which is the paper's where all replicas have as many samples.
"""

import torch
from torch import Tensor


def means(gradient: Tensor) -> Tensor:
    """(μ₊, μ₋) as float32 [2]; NaN where the gradient is not finite."""
    negative = gradient < 0
    below = negative.sum()
    sums = torch.stack([gradient.clamp(min=0).sum(), gradient.clamp(max=0).sum()])
    counts = torch.stack([len(gradient) - below, below])
    found = (sums / counts.clamp(min=1)).float()
    finite = torch.isfinite(sums).all()
    return torch.where(finite, found, torch.full_like(found, torch.nan))


def rebuilt(gradient: Tensor, own: Tensor, total: Tensor, *, replicas: int) -> Tensor:
    """R·ε + Σμ [n], from the replica's own means and the sums of all."""
    own, total = own.to(gradient.dtype), total.to(gradient.dtype)
    change = total - replicas * own
    return replicas * gradient + torch.where(gradient < 0, change[1], change[0])
