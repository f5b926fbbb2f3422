"""How long does one layer take at one micro-batch size, and which bytes does it keep and hand on?"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from executor.measuring.retention import retained
from executor.measuring.stopwatch import Stopwatch, Timed, repeat
from executor.models.loss import Loss
from executor.stages.split_backward import SplitBackward
from executor.values import Tensors, as_tensors
from profiles.timings import TimingPoint

SHORTEST_S = 1e-9
"""A time below what a clock can tell."""


@dataclass(frozen=True)
class MeasuredPoint:
    """One layer at one micro-batch size."""

    point: TimingPoint
    outputs: Tensors
    """What it gave, detached."""
    quiet_share: float
    """Share of the repeats that nothing disturbed."""


class LossLayer(nn.Module):
    """A loss as a layer: outputs of the last layer to one number."""

    def __init__(self, loss: Loss, target: Tensor) -> None:
        super().__init__()
        self._loss = loss
        self._target = target

    def forward(self, *outputs: Tensor) -> Tensor:
        """The mean over the micro-batch."""
        return self._loss.loss_function(outputs, self._target)


def measure_layer(
    layer: nn.Module, inputs: Tensors, *, micro_batch_size: int, watch: Stopwatch, budget_s: float
) -> MeasuredPoint:
    """Time a layer's passes on `inputs` (samples first) and count its bytes.

    Gradients are added to ones that are there already, as between the micro-batches of an iteration.
    """
    device = inputs[0].device
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    run = _Passes(layer, inputs)
    outputs = tuple(output.detach() for output in run.forward())
    bytes_ = retained(run.forward, run.backward, own=_own(layer), device=device)
    timed = repeat(run.cycle, watch, budget_s=budget_s)
    watch.forget()
    seconds = {name: max(SHORTEST_S, lap.median_s) for name, lap in timed.items()}
    point = TimingPoint(
        micro_batch_size=micro_batch_size,
        forward_s=seconds["forward"],
        backward_s=seconds["backward"],
        input_backward_s=seconds["input"],
        weight_backward_s=seconds["weight"],
        recomputed_backward_s=seconds["recomputed"],
        spread=max(timed["forward"].spread, timed["backward"].spread),
        repeats=min(lap.repeats for lap in timed.values()),
        outliers=timed["forward"].outliers + timed["backward"].outliers,
        activation_bytes=bytes_.kept_bytes,
        transient_bytes=bytes_.transient_bytes,
        boundary_bytes=sum(output.numel() * output.element_size() for output in outputs),
    )
    quiet = min((lap.quiet_share for lap in timed.values()), default=1.0)
    return MeasuredPoint(point, outputs, quiet)


def measure_update(
    layer: nn.Module,
    optimizer: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    *,
    watch: Stopwatch,
    budget_s: float,
) -> Timed | None:
    """Time an optimizer step of the layer's parameters in float32, whose masters mixed precision steps.

    None where there are none.
    """
    masters = [nn.Parameter(p.detach().float()) for p in layer.parameters() if p.requires_grad]
    if not masters:
        return None
    for master in masters:
        master.grad = torch.full_like(master, 1e-3)
    stepper = optimizer(masters)

    def cycle(watch: Stopwatch) -> None:
        with watch("update"):
            stepper.step()

    timed = repeat(cycle, watch, budget_s=budget_s)["update"]
    watch.forget()
    return timed


class _Passes:
    """The ways in which a runtime passes through a layer."""

    def __init__(self, layer: nn.Module, inputs: Tensors) -> None:
        self._layer = layer
        self._inputs = inputs
        self._leaves: Tensors = ()

    def forward(self) -> Tensors:
        """Run on leaves, as what comes over a cut is."""
        self._leaves = tuple(
            value.detach().requires_grad_(value.is_floating_point()) for value in self._inputs
        )
        return as_tensors(self._layer(*self._leaves))

    def backward(self, outputs: Tensors) -> None:
        """The whole backward."""
        roots = [output for output in outputs if output.requires_grad]
        if roots:
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])

    def cycle(self, watch: Stopwatch) -> None:
        """Every pass once: whole, split, recomputed."""
        with watch("forward"):
            outputs = self.forward()
        gradients = [torch.ones_like(output) for output in outputs if output.requires_grad]
        with watch("backward"):
            self._pull(outputs, gradients)
        outputs = self.forward()
        with watch("input"):
            split = SplitBackward(
                [get_gradient_edge(output) for output in outputs if output.requires_grad],
                gradients,
                [leaf for leaf in self._leaves if leaf.requires_grad],
            )
            split.inputs()
        with watch("weight"):
            split.weights()
        del outputs, split
        with watch("recomputed"):
            self._pull(self.forward(), gradients)
        self._leaves = ()

    @staticmethod
    def _pull(outputs: Tensors, gradients: list[Tensor]) -> None:
        roots = [output for output in outputs if output.requires_grad]
        if roots:
            torch.autograd.backward(roots, gradients)


def _own(layer: nn.Module) -> list[Tensor]:
    gradients = [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]
    return [*layer.parameters(), *layer.buffers(), *gradients]
