"""Which samples does each micro-batch of each pipeline group hold?"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from executor.errors import ConfigurationError
from executor.values import Batch, Spec, Tensors, as_tensors, specs_of
from executor.works import Passage, Target
from tuner.schedules.program import Op


class Batches:
    """The mini-batches of one run of a program, cut into width * micro_batches runs of samples.

    Sizes differ by at most one sample, the larger ones first; group w has the micro-batches w·N to w·N + N−1.
    """

    def __init__(
        self,
        batches: Sequence[Batch],
        *,
        micro_batches: int,
        width: int,
        group: int,
        count: Callable[[Tensor], float],
        first_iteration: int = 0,
        device: torch.device | None = None,
    ) -> None:
        """`count` gives the loss's denominator of a target; iterations count from `first_iteration`."""
        self._offset = group * micro_batches
        self._device: torch.device | None = None
        """Where samples have to be moved to."""
        self.first_iteration = first_iteration
        self.pieces = pieces = micro_batches * width
        """Micro-batches of a mini-batch, over all groups."""
        self.whole: tuple[Spec, ...] = ()
        """Of the inputs of the first mini-batch, from which those of its micro-batches follow."""
        self._inputs: list[list[Tensors]] = []
        self._targets: list[list[Target]] = []
        self._counts: list[list[float]] = []
        for inputs, targets in batches:
            tensors = as_tensors(inputs)
            _refuse_uneven((*tensors, targets), pieces=pieces)
            if any(tensor.device != device for tensor in (*tensors, targets)):
                self._device = device
            self.whole = self.whole or specs_of(tensors)
            cut = [torch.tensor_split(tensor, pieces) for tensor in tensors]
            self._inputs.append([tuple(piece[m] for piece in cut) for m in range(pieces)])
            answers = torch.tensor_split(targets, pieces)
            self._counts.append([count(answer) for answer in answers])
            total = sum(self._counts[-1])
            self._targets.append(
                [Target(answer, total, n) for answer, n in zip(answers, self._counts[-1], strict=True)]
            )

    @property
    def iterations(self) -> int:
        """Mini-batches."""
        return len(self._inputs)

    def passage(self, op: Op) -> Passage:
        """The micro-batch of an operation, numbered over all groups."""
        return Passage(self.first_iteration + op.iteration, self._offset + op.micro_batch)

    def specs(self, micro_batch: int) -> tuple[Spec, ...]:
        """Of the inputs of one of the group's micro-batches in the first mini-batch."""
        return specs_of(self._inputs[0][self._offset + micro_batch])

    def inputs(self, op: Op) -> Tensors:
        """[samples, ...] of one micro-batch, moved to the device by the rank that asks."""
        piece = self._inputs[op.iteration][self._offset + op.micro_batch]
        return piece if self._device is None else tuple(tensor.to(self._device) for tensor in piece)

    def target(self, op: Op) -> Target:
        """What the last stage compares with, moved likewise."""
        target = self._targets[op.iteration][self._offset + op.micro_batch]
        if self._device is None:
            return target
        return replace(target, tensor=target.tensor.to(self._device))

    def mean(self, iteration: int, losses: Sequence[float]) -> float:
        """The mean loss of a mini-batch from those of its micro-batches, added up in their order."""
        counts = self._counts[iteration]
        return sum(count * loss for count, loss in zip(counts, losses, strict=True)) / (sum(counts) or 1.0)


def _refuse_uneven(tensors: Tensors, *, pieces: int) -> None:
    sizes = {tensor.shape[0] if tensor.ndim else 0 for tensor in tensors}
    if len(sizes) > 1:
        raise ConfigurationError(
            f"inputs and targets have {' and '.join(map(str, sorted(sizes)))} samples: the first "
            "dimension of all of them counts samples"
        )
    samples = sizes.pop()
    if samples < pieces:
        raise ConfigurationError(
            f"a mini-batch of {samples} samples cannot be cut into {pieces} micro-batches (N·W): give it "
            f"{pieces} samples or more" + (f", or use at most {samples} micro-batches" if samples else "")
        )
