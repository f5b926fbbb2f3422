"""How does a gradient travel as two thin factors? PowerSGD (arXiv 1905.13727), one step of power iteration.

The gradient [n] is one square matrix M [⌈√n⌉, ⌈√n⌉], zeros behind, as in torch's batched_powerSGD_hook:

    P = M·Q, summed;  P̂ = orthonormal columns of P;  Q = Mᵀ·P̂, summed;  M ≈ P̂·Qᵀ

Q starts the next step. The error of a replica is M − P̂·Qᵀ with its own Q, so that nothing of it is lost.
"""

from math import isqrt

import torch
from torch import Tensor


def side_of(elements: int) -> int:
    """⌈√n⌉."""
    return isqrt(max(0, elements - 1)) + 1


def as_matrix(gradient: Tensor) -> Tensor:
    """[n] -> [⌈√n⌉, ⌈√n⌉]."""
    side = side_of(len(gradient))
    return torch.nn.functional.pad(gradient, (0, side * side - len(gradient))).view(side, side)


def first_factor(side: int, rank: int, generator: torch.Generator) -> Tensor:
    """Q of the first step [side, rank], the same on all replicas."""
    return torch.randn(side, min(rank, side), generator=generator)


def orthonormal(columns: Tensor) -> Tensor:
    """Orthonormal columns that span those given [side, rank]; NaN where one is not finite."""
    if not torch.isfinite(columns).all():
        return torch.full_like(columns, torch.nan)
    basis: Tensor = torch.linalg.qr(columns).Q
    return basis
