"""Into how many buckets are a stage's gradients cut? All stages into as many, so that ranks agree."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import nn

from executor.weights.precision import DTYPES, Numerics

MOST_BYTES = 25 * 1024**2
"""Of a bucket, as in torch's DistributedDataParallel: much for a link, little beside a stage."""
MOST_BUCKETS = 1000


def agreed_buckets(
    stages: Iterable[nn.Module],
    *,
    numerics: Numerics,
    at_least: int,
    most_bytes: int | None,
    group: dist.ProcessGroup | None,
) -> int:
    """The smallest number, `at_least` so many, that leaves no bucket of any stage above `most_bytes`.

    All members of `group`, which hold all stages between them, call this, each with its own.
    """
    if most_bytes is None:
        return at_least
    largest = max((_gradient_bytes(stage, numerics) for stage in stages), default=0)
    found = torch.tensor([largest], dtype=torch.int64)
    dist.all_reduce(found, dist.ReduceOp.MAX, group=group)
    return buckets_of(int(found), at_least=at_least, most_bytes=most_bytes)


def buckets_of(gradient_bytes: int, *, at_least: int = 1, most_bytes: int = MOST_BYTES) -> int:
    """⌈bytes / most_bytes⌉, between `at_least` and MOST_BUCKETS."""
    return max(at_least, min(MOST_BUCKETS, -(-gradient_bytes // most_bytes)))


def _gradient_bytes(stage: nn.Module, numerics: Numerics) -> int:
    """Also before a mixed run has cast its weights."""
    cast = DTYPES[numerics.precision] if numerics.mixed else None
    return sum(
        parameter.numel() * numerics.gradient_dtype(cast or parameter.dtype).itemsize
        for parameter in stage.parameters()
        if parameter.requires_grad
    )
