"""How are the gradients of a rank compressed? One compression for all its buffers, with what it remembers.

What is remembered belongs to a (parameter group, replica): residuals by `Feedback`, the factors of powersgd,
and the number of steps, from which the random numbers of qsgd follow.
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from executor.compression import exchanges, low_rank, sparse
from executor.compression.exchanges import CAST_DTYPES, Exchange, LowRankExchange
from executor.compression.feedback import Feedback, Unit
from executor.compression.wire import Wire
from tuner.compression import WITH_RESIDUAL, Compression

Key = tuple[int, int, int]
"""Parameter group, flat buffer, and where the unit starts in it."""


class Compressor:
    """Compresses what one rank sends."""

    def __init__(self, compression: Compression, *, wire: Wire, seed: int = 0) -> None:
        self.compression = compression
        self.feedback = Feedback()
        self.factors: dict[Key, Tensor] = {}
        """Q of powersgd [side, rank], the same on all replicas."""
        self.steps = 0
        """Steps that were made or skipped."""
        self._halfway: list[LowRankExchange] = []
        """Those that have a second collective to start."""
        self._wire = wire
        self._seed = seed

    @property
    def whole(self) -> bool:
        """Whether a buffer goes in one piece, however many buckets it has: two floats are two floats."""
        return self.compression.name == "a2sgd"

    @property
    def keeps_residual(self) -> bool:
        """Whether what was not sent is added to the next gradient."""
        return self.compression.name in WITH_RESIDUAL

    def start(self, unit: Unit, process_group: dist.ProcessGroup, *, length: int, scale: float) -> Any:
        """Compress, and start the collective; what comes back puts the sum in place when waited for.

        That is after `proceed`. length: of the whole buffer without padding. scale: the loss scale that is in
        the gradient.
        """
        gradient = unit.gradient if unit.gradient.dtype == torch.float64 else unit.gradient.float()
        if self.keeps_residual:
            gradient = self.feedback.corrected(unit, gradient, length=length, scale=scale)
        exchange = self._exchange(unit, gradient, process_group)
        if isinstance(exchange, LowRankExchange):
            self._halfway.append(exchange)
        return _Pending(self, unit, exchange, scale=scale)

    def proceed(self) -> None:
        """Start the second collectives, in the order of the first: links carry one while the next is made."""
        for exchange in self._halfway:
            exchange.proceed()
        self._halfway.clear()

    def settle(self, *, stepped: bool) -> None:
        """After the step, or where it was skipped."""
        self.feedback.settle(stepped=stepped)
        self.steps += 1

    def generator(self, numbers: Iterable[int], device: torch.device) -> torch.Generator:
        """Random numbers of this run that depend on `numbers` alone."""
        state = self._seed & (2**63 - 1)
        for number in numbers:
            state = (state * 6364136223846793005 + number * 1442695040888963407 + 1) % 2**63
        return torch.Generator(device).manual_seed(state)

    def _exchange(self, unit: Unit, gradient: Tensor, process_group: dist.ProcessGroup) -> Exchange:
        how, wire, n = self.compression, self._wire, len(gradient)
        if how.name in CAST_DTYPES:
            return exchanges.CastExchange(
                unit.gradient, CAST_DTYPES[how.name], wire=wire, process_group=process_group
            )
        if how.name == "a2sgd":
            return exchanges.TwoMeansExchange(gradient, wire=wire, process_group=process_group)
        if how.name == "qsgd":
            drawn = self.generator((self.steps, *unit.place, unit.start, unit.replica), gradient.device)
            return exchanges.quantized_exchange(gradient, drawn, wire=wire, process_group=process_group)
        if how.name == "powersgd":
            return self._factored(unit, gradient, process_group)
        count = int(how.kept(n))
        select = sparse.select_largest if how.name == "topk" else sparse.select_beyond_quantile
        indices = select(gradient, count)
        return exchanges.sparse_exchange(gradient, indices, count, wire=wire, process_group=process_group)

    def _factored(self, unit: Unit, gradient: Tensor, process_group: dist.ProcessGroup) -> Exchange:
        if not int(self.compression.factored(len(gradient))):
            return exchanges.DenseExchange(gradient, wire=self._wire, process_group=process_group)
        key, side = (*unit.place, unit.start), low_rank.side_of(len(gradient))
        if key not in self.factors or len(self.factors[key]) != side:
            drawn = self.generator(key, torch.device("cpu"))
            factor = low_rank.first_factor(side, self.compression.rank, drawn)
            self.factors[key] = factor.to(gradient.device)
        return LowRankExchange(gradient, self.factors[key], wire=self._wire, process_group=process_group)

    def finished(self, unit: Unit, exchange: Exchange, scale: float) -> None:
        """Put the sum of an exchange where it belongs, and note what is owed."""
        outcome = exchange.wait()
        unit.gradient.copy_(outcome.total)
        if outcome.residual is not None and _is_finite(outcome.total):
            self.feedback.owe(unit, outcome.residual, scale=scale)
        if isinstance(exchange, LowRankExchange):
            self.factors[*unit.place, unit.start] = exchange.factor


class _Pending:
    """A collective of the synchroniser."""

    def __init__(self, compressor: Compressor, unit: Unit, exchange: Exchange, *, scale: float) -> None:
        self._compressor, self._unit, self._exchange, self._scale = compressor, unit, exchange, scale

    def wait(self) -> None:
        """Put the sum into the unit's gradient."""
        self._compressor.finished(self._unit, self._exchange, self._scale)


def _is_finite(total: Tensor) -> bool:
    """Whether all of it is: one pass where the sum says so, which huge numbers may overflow."""
    return bool(torch.isfinite(total.sum(dtype=torch.float64)) or torch.isfinite(total).all())
