"""What does the last stage minimise, and by what is it divided?"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.nn import functional

from executor.errors import ModelError
from executor.values import Tensors

LossFunction = Callable[[Any, Tensor], Tensor]
"""(output, target) -> mean loss of a micro-batch, without dimensions."""
Count = Callable[[Tensor], float]
"""target -> n, the loss's own denominator: samples, or valid tokens."""


@dataclass(frozen=True)
class Loss:
    """A mean loss and its denominator.

    The gradient of a mini-batch is Σ n_m·g_m / Σn, where g_m is that of the mean loss of micro-batch m and
    n_m = count(its target): what one process gets that takes the mean over the whole mini-batch.
    """

    function: LossFunction
    """Its output is a tensor where the last layer gives one, else the tuple."""
    count: Count

    def loss_function(self, outputs: Tensors | Tensor, target: Tensor) -> Tensor:
        """The mean loss of a micro-batch, without dimensions."""
        single = isinstance(outputs, tuple) and len(outputs) == 1
        loss = self.function(outputs[0] if single else outputs, target)
        if loss.ndim:
            raise ModelError(
                f"the loss has the shape {list(loss.shape)}: it must be one number, the mean of a micro-batch"
            )
        return loss


def mean_squared_error() -> Loss:
    """(output − target)² averaged over all elements; every sample counts once."""
    return Loss(functional.mse_loss, samples)


def cross_entropy(ignore_index: int = -100) -> Loss:
    """Mean over the positions whose target is not `ignore_index`, in nats; 0 where there is no such position.

    output [..., classes], target [...] of class numbers.
    """

    def valid(target: Tensor) -> float:
        return float((target != ignore_index).sum().item())

    def mean(output: Tensor, target: Tensor) -> Tensor:
        # [..., classes] -> [positions, classes]
        total = functional.cross_entropy(
            output.flatten(0, -2), target.flatten(), ignore_index=ignore_index, reduction="sum"
        )
        return total / (target != ignore_index).sum().clamp(min=1)

    return Loss(mean, valid)


def samples(target: Tensor) -> float:
    """The size of the first dimension."""
    return float(target.shape[0])
