"""What do the collectives of gradients carry? Every one of them goes through here and is counted.

A wire can be made as slow as a link: a collective then lasts as long as a ring would over that bandwidth.
"""

import time
from typing import Any

import torch.distributed as dist
from torch import Tensor

from executor.weights.scattering import gather_pieces, scatter_sum


class Wire:
    """Starts collectives of one rank and counts what it gives to them."""

    def __init__(self, *, bytes_per_s: float | None = None) -> None:
        """`bytes_per_s` is the bandwidth of an emulated link; None for what the machine has."""
        self.sent_bytes = 0
        """What this rank has given to collectives since the start: their inputs, however they are carried."""
        self.collectives = 0
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0
        """When the emulated link is free, on the monotonic clock."""

    def all_reduce(self, tensor: Tensor, process_group: dist.ProcessGroup) -> Any:
        """Start summing in place; a ring sends 2·(r−1)/r of it."""
        r = process_group.size()
        return self._carry(
            dist.all_reduce(tensor, group=process_group, async_op=True), tensor, traffic=2 * (r - 1) / r
        )

    def all_gather(self, whole: Tensor, own: Tensor, process_group: dist.ProcessGroup) -> Any:
        """Start filling `whole` [r · n] with `own` [n] of every member; a ring sends r − 1 pieces."""
        work = gather_pieces(whole, own, process_group=process_group)
        return self._carry(work, own, traffic=process_group.size() - 1)

    def reduce_scatter(self, whole: Tensor, own: Tensor, process_group: dist.ProcessGroup) -> Any:
        """Start summing `whole` [r · n], this member's piece into `own` [n]; a ring sends (r−1)/r of it."""
        work = scatter_sum(whole, own, process_group=process_group)
        return self._carry(work, whole, traffic=1 - 1 / process_group.size())

    def _carry(self, work: Any, given: Tensor, *, traffic: float) -> Any:
        self.sent_bytes += given.nbytes
        self.collectives += 1
        if self._bytes_per_s is None:
            return work
        self._free_s = max(self._free_s, time.monotonic()) + traffic * given.nbytes / self._bytes_per_s
        return _Slowed(work, self._free_s)


class _Slowed:
    """A collective that ends no earlier than a slow link would let it."""

    def __init__(self, work: Any, end_s: float) -> None:
        self._work = work
        self._end_s = end_s

    def wait(self) -> None:
        """Until it has ended, on the real and on the emulated link."""
        self._work.wait()
        left_s = self._end_s - time.monotonic()
        if left_s > 0:
            time.sleep(left_s)
