"""How are sums scattered over the members of a group, and pieces gathered from them?

Both work in place: a member's own piece lies inside the whole.
"""

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor

_reduce_scatter: Callable[..., Any] | None = getattr(dist, "reduce_scatter_single", None)
_all_gather: Callable[..., Any] = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
"""Their names since torch 2.13, where the older ones warn."""


def scatter_sum(whole: Tensor, own: Tensor, *, process_group: dist.ProcessGroup) -> Any:
    """Start summing `whole` [members · n] over the group; `own` [n] is this member's piece, in order of rank.

    The rest of `whole` is undefined afterwards. Older gloo has no reduce-scatter: it sums everything instead.
    """
    if _reduce_scatter is not None:
        return _reduce_scatter(own, whole, group=process_group, async_op=True)
    if whole.is_cuda and "nccl" in dist.get_backend_config(process_group):
        return dist.reduce_scatter_tensor(own, whole, group=process_group, async_op=True)
    return dist.all_reduce(whole, group=process_group, async_op=True)


def gather_pieces(whole: Tensor, own: Tensor, *, process_group: dist.ProcessGroup) -> Any:
    """Start filling `whole` [members · n] with the pieces `own` [n] of all members, in order of rank."""
    return _all_gather(whole, own, group=process_group, async_op=True)
