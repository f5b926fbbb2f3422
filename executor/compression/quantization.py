"""How do gradients travel as a norm and small whole numbers, so that their mean is exact? QSGD.

    Q(g)_i = ‖g‖₂ · sgn(g_i) · l_i / s,    l_i = ⌊s·|g_i|/‖g‖₂⌋ or one more, so that E Q(g) = g

Its paper is arXiv 1610.02132. A code is uint8 [⌈(2.8n + 32)/8⌉], the length that corollary 3.3 gives for
s = ⌊√n⌋: the norm as float32, then bits: h ones and a zero, the levels, the signs of those that are not 0. A
level l is l ones and a zero, or with s = 1 one bit. s is halved h times where the levels would not fit: for
nearly constant gradients, and few elements. The choice looks at the gradient alone, never at what was drawn,
so Q stays unbiased.
"""

from math import isfinite, isqrt, sqrt

import numpy as np
import torch
from torch import Tensor

from executor.compression.positions import positions
from tuner.compression import Compression

_NORM_BYTES = 4
_LONGEST_PREFIX = 64
_DEVIATIONS = 7
"""Standard deviations, at most √n bits each, by which the drawn levels may need more than expected."""


def encode(gradient: Tensor, generator: torch.Generator) -> Tensor:
    """The code of a gradient [n]; the generator draws what is rounded up.

    A norm that is not finite is sent alone.
    """
    code = torch.zeros(
        int(Compression("qsgd").volume_bytes(len(gradient))), dtype=torch.uint8, device=gradient.device
    )
    norm = torch.linalg.vector_norm(gradient, dtype=torch.float64).float()
    code[:_NORM_BYTES] = norm.reshape(1).view(torch.uint8)
    if not torch.isfinite(norm) or norm == 0:
        return code
    share = (gradient.abs() / norm).clamp_(max=1.0)
    capacity = 8 * (len(code) - _NORM_BYTES)
    halvings = _halvings(share, capacity)
    bits = _drawn_bits(gradient, share, halvings=halvings, generator=generator)
    while len(bits) > capacity:  # rarer than one in 10^10
        halvings += 1
        bits = _drawn_bits(gradient, share, halvings=halvings, generator=generator)
    packed = _packed(bits)
    code[_NORM_BYTES : _NORM_BYTES + len(packed)] = packed
    return code


def add_decoded(total: Tensor, code: Tensor) -> None:
    """Add what a code holds to `total` [n]; all of it becomes NaN where the norm is not finite."""
    norm = code[:_NORM_BYTES].clone().view(torch.float32).item()
    if norm == 0:
        return
    if not isfinite(norm):
        total.fill_(torch.nan)
        return
    n = len(total)
    bits = _unpacked(code[_NORM_BYTES:])
    halvings = int(positions(bits[:_LONGEST_PREFIX] == 0)[0])
    s = levels_count(n, halvings)
    bits = bits[halvings + 1 :]
    if s == 1:
        levels, used = bits[:n].long(), n
    else:
        ends = positions(bits == 0)[:n]
        levels = torch.diff(ends, prepend=ends.new_full((1,), -1)) - 1
        used = int(ends[-1]) + 1
    nonzero = positions(levels)
    negative = bits[used : used + len(nonzero)].bool()
    values = levels[nonzero].to(total.dtype) * (norm / s)
    total[nonzero] += torch.where(negative, -values, values)


def levels_count(elements: int, halvings: int = 0) -> int:
    """s: the levels between 0 and the norm."""
    return max(1, isqrt(elements) >> halvings)


def _halvings(share: Tensor, capacity: int) -> int:
    """How often s has to be halved for the levels to fit."""
    n, halvings = len(share), 0
    while (s := levels_count(n, halvings)) > 1:
        scaled = share * s
        expected = n + float(scaled.sum() + scaled.clamp(max=1.0).sum())
        if halvings + 1 + expected + _DEVIATIONS * sqrt(n) <= capacity:
            break
        halvings += 1
    return halvings


def _drawn_bits(gradient: Tensor, share: Tensor, *, halvings: int, generator: torch.Generator) -> Tensor:
    """Levels drawn with the mean that they should have, as bits."""
    s = levels_count(len(share), halvings)
    scaled = share * s
    floor = scaled.floor()
    drawn = torch.rand(len(share), generator=generator, device=share.device, dtype=share.dtype)
    levels = (floor + (drawn < scaled - floor)).long()
    prefix = torch.ones(halvings + 1, dtype=torch.uint8, device=share.device)
    prefix[-1] = 0
    if s == 1:
        unary = levels.to(torch.uint8)
    else:
        ends = torch.cumsum(levels + 1, 0) - 1
        unary = torch.ones(int(ends[-1]) + 1, dtype=torch.uint8, device=share.device)
        unary[ends] = 0
    return torch.cat([prefix, unary, (gradient[levels > 0] < 0).to(torch.uint8)])


def _packed(bits: Tensor) -> Tensor:
    """Eight bits a byte, the first one lowest."""
    if not bits.is_cuda:
        return torch.from_numpy(np.packbits(bits.numpy(), bitorder="little").copy())
    whole = torch.nn.functional.pad(bits, (0, -len(bits) % 8)).view(-1, 8)
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=bits.device)
    return (whole * weights).sum(1, dtype=torch.uint8)


def _unpacked(code: Tensor) -> Tensor:
    if not code.is_cuda:
        return torch.from_numpy(np.unpackbits(code.numpy(), bitorder="little"))
    shifts = torch.arange(8, dtype=torch.uint8, device=code.device)
    return (code[:, None] >> shifts).bitwise_and_(1).reshape(-1)
