"""What do asynchronous schedules make of weights, by their papers' rules? Plain loops in one process.

A micro-batch has a number t in the stream of all mini-batches of one call; stages are counted from 0, D of
them, each with the layers of one cut. PipeDream: stage s reads version max(t − (D − 1 − s), 0), and every
micro-batch makes a version. PipeDream-2BW: mini-batch b reads version max(b − 1, 0) everywhere. PipeMare:
the forward of stage s reads what is newest, the backward what is newest then, corrected.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

from tests.executor.equivalence import net

RATE = 0.1
Weights = list[Tensor]
"""Weight and bias of every layer in turn."""
Batch = tuple[Tensor, Tensor]


@dataclass
class Rule:
    """One process that follows a schedule's rule."""

    depth: int
    width: int
    micro_batches: int
    annealing: int = 0
    """K of T1."""
    warm_up: int = 0
    """T3."""
    momentum: float = 0.0
    weights: Weights = field(
        default_factory=lambda: [p.detach().clone() for layer in net() for p in layer.parameters()]
    )
    losses: list[float] = field(default_factory=list)
    steps: int = 0

    def __post_init__(self) -> None:
        self.velocity = [torch.zeros_like(value) for value in self.weights]
        self.deltas = [torch.zeros_like(value) for value in self.weights]

    def pieces(self, batch: Batch, m: int) -> list[tuple[Tensor, Tensor, float]]:
        """Micro-batch m of every group, with its share of the mini-batch."""
        count = self.micro_batches * self.width
        cut = list(zip(*(torch.tensor_split(tensor, count) for tensor in batch), strict=True))
        chosen = [cut[group * self.micro_batches + m] for group in range(self.width)]
        return [(inputs, targets, len(inputs) / len(batch[0])) for inputs, targets in chosen]

    def stage_of(self, number: int) -> int:
        """Of a weight or bias, when eight layers are cut evenly."""
        return number // 2 * self.depth // 8

    def pipedream(self, batches: Sequence[Batch]) -> None:
        """A version for every micro-batch."""
        versions = [self.weights]
        for t in range(len(batches) * self.micro_batches):
            b, m = divmod(t, self.micro_batches)
            oldest = [max(t - (self.depth - 1 - self.stage_of(n)), 0) for n in range(len(self.weights))]
            read = [versions[version][n] for n, version in enumerate(oldest)]
            loss, gradient = self.differentiate(read, self.pieces(batches[b], m))
            self.tell(loss, new=m == 0)
            versions.append(self.stepped(versions[-1], gradient))
        self.weights = versions[-1]

    def pipedream_2bw(self, batches: Sequence[Batch]) -> None:
        """A version for every mini-batch, read by the next but one."""
        versions = [self.weights]
        for b, batch in enumerate(batches):
            total = [torch.zeros_like(value) for value in self.weights]
            for m in range(self.micro_batches):
                loss, gradient = self.differentiate(versions[max(b - 1, 0)], self.pieces(batch, m))
                total = [a + g for a, g in zip(total, gradient, strict=True)]
                self.tell(loss, new=m == 0)
            versions.append(self.stepped(versions[-1], total))
        self.weights = versions[-1]

    def pipemare(self, batches: Sequence[Batch]) -> None:
        """One copy; the first steps are synchronous."""
        alone = min(max(0, self.warm_up - self.steps), len(batches))
        for batch in batches[:alone]:
            self._run_freely([batch], corrected=False)
        self._run_freely(batches[alone:], corrected=True)

    def _run_freely(self, batches: Sequence[Batch], *, corrected: bool) -> None:
        versions = [self.weights]
        for b, batch in enumerate(batches):
            total = [torch.zeros_like(value) for value in self.weights]
            backward = [
                w - self.delay(n) * d if corrected else w
                for n, (w, d) in enumerate(zip(versions[-1], self.deltas, strict=True))
            ]
            for m in range(self.micro_batches):
                t = b * self.micro_batches + m
                ahead = [self.depth - self.stage_of(n) for n in range(len(self.weights))]
                newest = [max(0, (t - a + 1) // self.micro_batches) for a in ahead]
                forward = [versions[version][n] for n, version in enumerate(newest)]
                summed = 0.0
                for inputs, targets, share in self.pieces(batch, m):
                    loss, gradient = by_hand(forward, backward, inputs, targets)
                    total = [a + share * g for a, g in zip(total, gradient, strict=True)]
                    summed += share * loss
                self.tell(summed, new=m == 0)
            versions.append(self._stepped_freely(versions[-1], total, corrected=corrected))
        self.weights = versions[-1]

    def _stepped_freely(self, weights: Weights, gradient: Weights, *, corrected: bool) -> Weights:
        done = self.steps - self.warm_up
        power = 1 - min(done / self.annealing, 1) if corrected and self.annealing else 0.0
        stepped = []
        for n, (value, slope) in enumerate(zip(weights, gradient, strict=True)):
            stepped.append(value - RATE / max(self.delay(n), 1.0) ** power * slope)
            decay = 0.135 ** (1 / self.delay(n))
            self.deltas[n] = decay * self.deltas[n] + (1 - decay) * (stepped[n] - value)
        self.steps += 1
        return stepped

    def delay(self, number: int) -> float:
        """τ = (2(P − i) + 1) / N with i = s + 1."""
        return (2 * (self.depth - 1 - self.stage_of(number)) + 1) / self.micro_batches

    def differentiate(
        self, read: Weights, pieces: list[tuple[Tensor, Tensor, float]]
    ) -> tuple[float, Weights]:
        """The groups' share of loss and gradient at these weights."""
        leaves = [value.clone().requires_grad_() for value in read]
        loss = torch.zeros((), dtype=torch.float64)
        for inputs, targets, share in pieces:
            value = inputs
            for weight, bias in zip(leaves[::2], leaves[1::2], strict=True):
                value = torch.tanh(functional.linear(value, weight, bias))
            loss = loss + share * functional.mse_loss(value, targets)
        return loss.item(), list(torch.autograd.grad(loss, leaves))

    def stepped(self, weights: Weights, gradient: Weights) -> Weights:
        """Gradient descent with momentum."""
        self.velocity = [self.momentum * v + g for v, g in zip(self.velocity, gradient, strict=True)]
        return [value - RATE * v for value, v in zip(weights, self.velocity, strict=True)]

    def tell(self, loss: float, *, new: bool) -> None:
        """Add a micro-batch's share to the loss of its mini-batch."""
        if new:
            self.losses.append(0.0)
        self.losses[-1] += loss


def by_hand(forward: Weights, backward: Weights, inputs: Tensor, targets: Tensor) -> tuple[float, Weights]:
    """Loss and gradient of tanh layers, whose backward goes through other weights than their forward."""
    values = [inputs]
    for weight, bias in zip(forward[::2], forward[1::2], strict=True):
        values.append(torch.tanh(values[-1] @ weight.T + bias))
    error = values[-1] - targets
    gradient: Weights = []
    slope = 2 * error / error.numel()
    for number in reversed(range(len(values) - 1)):
        slope = slope * (1 - values[number + 1] ** 2)
        gradient = [slope.T @ values[number], slope.sum(0), *gradient]
        slope = slope @ backward[2 * number]
    return (error**2).mean().item(), gradient
