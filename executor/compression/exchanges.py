"""How is one compressed gradient summed over its replicas? Compress, start a collective, later add what came.

An exchange is made when its gradient is complete, starts its first collective, and gives the sum when it is
waited for. Whatever is not finite in one replica's gradient makes the sum not finite on all of them.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from executor.compression import low_rank, quantization, sparse, two_means
from executor.compression.wire import Wire

CAST_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
AddDecoded = Callable[[Tensor, Tensor], None]


class Outcome(NamedTuple):
    """What an exchange gives."""

    total: Tensor
    """The sum over the replicas [n]."""
    residual: Tensor | None
    """What of this replica's gradient was not sent [n]; None where nothing is kept."""


class Exchange(Protocol):
    """One gradient under way."""

    def wait(self) -> Outcome:
        """The sum, when all replicas' codes are there."""


class CastExchange:
    """fp16, bf16: rounded and summed in that precision, as torch's fp16_compress_hook does."""

    def __init__(
        self, gradient: Tensor, dtype: torch.dtype, *, wire: Wire, process_group: dist.ProcessGroup
    ) -> None:
        self._code = gradient.to(dtype, copy=True)
        self._work = wire.all_reduce(self._code, process_group)

    def wait(self) -> Outcome:
        """The rounded sum, in that precision."""
        self._work.wait()
        return Outcome(self._code, None)


class CastScatter:
    """fp16, bf16 of a sharded optimizer: every member keeps the sum of its own piece."""

    def __init__(
        self,
        bucket: Tensor,
        own: Tensor,
        dtype: torch.dtype,
        *,
        wire: Wire,
        process_group: dist.ProcessGroup,
    ) -> None:
        """`own` [n] is this member's piece of `bucket` [members · n], and takes the sum."""
        self._own = own
        code = bucket.to(dtype, copy=True)
        self._piece = code[process_group.rank() * len(own) :][: len(own)]
        self._work = wire.reduce_scatter(code, self._piece, process_group)

    def wait(self) -> None:
        """Put the sum in its place."""
        self._work.wait()
        self._own.copy_(self._piece)


class GatheredExchange:
    """topk, gaussiank, qsgd: the codes of all replicas come to each, which adds them in one order."""

    def __init__(
        self,
        gradient: Tensor,
        code: Tensor,
        *,
        add_decoded: AddDecoded,
        residual: Tensor | None,
        wire: Wire,
        process_group: dist.ProcessGroup,
    ) -> None:
        """`code` is that of `gradient`, and `residual` what it leaves out."""
        self._gradient, self._residual, self._add_decoded = gradient, residual, add_decoded
        self._codes = code.new_empty(process_group.size() * len(code))
        self._replicas = process_group.size()
        self._work = wire.all_gather(self._codes, code, process_group)

    def wait(self) -> Outcome:
        """The sum of what was decoded."""
        self._work.wait()
        total = torch.zeros_like(self._gradient)
        for code in self._codes.view(self._replicas, -1):
            self._add_decoded(total, code)
        return Outcome(total, self._residual)


class TwoMeansExchange:
    """a2sgd: two floats, of which every replica makes a sum of its own."""

    def __init__(self, gradient: Tensor, *, wire: Wire, process_group: dist.ProcessGroup) -> None:
        self._gradient, self._replicas = gradient, process_group.size()
        self._own = two_means.means(gradient)
        self._total = self._own.clone()
        self._work = wire.all_reduce(self._total, process_group)

    def wait(self) -> Outcome:
        """This replica's own view of the sum."""
        self._work.wait()
        return Outcome(
            two_means.rebuilt(self._gradient, self._own, self._total, replicas=self._replicas), None
        )


class LowRankExchange:
    """powersgd: two collectives, of which the second needs what the first has summed."""

    def __init__(
        self, gradient: Tensor, factor: Tensor, *, wire: Wire, process_group: dist.ProcessGroup
    ) -> None:
        """`factor` is the Q of the step before [side, rank]."""
        self._gradient, self._wire, self._process_group = gradient, wire, process_group
        self._matrix = low_rank.as_matrix(gradient)
        self.factor = factor
        """The summed Q, for the next step; as it was where a gradient was not finite."""
        self._columns = (self._matrix @ factor.to(gradient)).float()
        self._work = wire.all_reduce(self._columns, process_group)

    def proceed(self) -> None:
        """Wait for the first collective, and start the second."""
        self._work.wait()
        self._basis = low_rank.orthonormal(self._columns.to(self._gradient))
        self._own = (self._matrix.T @ self._basis).float()
        self._total = self._own.clone()
        self._work = self._wire.all_reduce(self._total, self._process_group)

    def wait(self) -> Outcome:
        """P̂·Qᵀ, and what this replica's own Q leaves out; only after `proceed`."""
        self._work.wait()
        n, like, basis, total = len(self._gradient), self._gradient, self._basis, self._total
        if torch.isfinite(total).all():
            self.factor = total
        residual = like - (basis @ self._own.to(like).T).reshape(-1)[:n]
        return Outcome((basis @ total.to(like).T).reshape(-1)[:n], residual)


class DenseExchange:
    """powersgd where the factors would be no smaller: the gradient as float32."""

    def __init__(self, gradient: Tensor, *, wire: Wire, process_group: dist.ProcessGroup) -> None:
        self._gradient = gradient
        self._sent = gradient.float()
        self._code = self._sent.clone()
        self._work = wire.all_reduce(self._code, process_group)

    def wait(self) -> Outcome:
        """The sum; float64 leaves its rounding."""
        self._work.wait()
        return Outcome(
            self._code.to(self._gradient.dtype), self._gradient - self._sent.to(self._gradient.dtype)
        )


def sparse_exchange(
    gradient: Tensor, indices: Tensor, count: int, *, wire: Wire, process_group: dist.ProcessGroup
) -> GatheredExchange:
    """topk, gaussiank: of the gradients at `indices`, at most `count`; the gradient becomes the residual."""
    code = sparse.encode(gradient, indices, count)
    gradient[indices] -= gradient[indices].float().to(gradient.dtype)
    return GatheredExchange(
        gradient,
        code,
        add_decoded=sparse.add_decoded,
        residual=gradient,
        wire=wire,
        process_group=process_group,
    )


def quantized_exchange(
    gradient: Tensor, generator: torch.Generator, *, wire: Wire, process_group: dist.ProcessGroup
) -> GatheredExchange:
    """qsgd: drawn by `generator`."""
    code = quantization.encode(gradient, generator)
    return GatheredExchange(
        gradient,
        code,
        add_decoded=quantization.add_decoded,
        residual=None,
        wire=wire,
        process_group=process_group,
    )
