"""How does PipeMare train on one copy of the weights, which changes under live micro-batches?

By three techniques (arXiv 1910.05124). With P stages and N micro-batches per mini-batch, the weights that the
forward of stage i (1-based) reads are τ_i = (2(P − i) + 1)/N optimizer steps old by the time of its backward,
which reads those that are there then.

T1: α_k,i = α / max(τ_i, 1)^p_k with p_k = 1 − min(k/K, 1) at asynchronous step k.
T2: the backward uses u = w − τ_i·δ, where δ ← γ_i·δ + (1 − γ_i)(w_new − w_old) at every step and
γ_i = 0.135^(1/τ_i).
T3: the first steps are synchronous, at the full learning rate and without the correction; δ is kept up.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from executor.errors import ConfigurationError
from executor.stages.versions import NewestWeights

_DECAY = 0.135
"""About e^(−2), the paper's D."""


@dataclass(frozen=True)
class PipeMareRule:
    """What the three techniques do at one stage."""

    stage: int
    """0-based: the paper's i − 1."""
    stages: int
    micro_batches: int
    annealing_steps: int = 0
    """K of T1; 0 switches it off."""
    warm_up_steps: int = 0
    """T3."""
    correction: bool = True
    """T2."""

    def __post_init__(self) -> None:
        if not 0 <= self.stage < self.stages or self.micro_batches < 1:
            raise ConfigurationError(
                f"stage {self.stage} of {self.stages} with {self.micro_batches} micro-batches has no delay: "
                "stages count from 0, and at least one micro-batch makes a mini-batch"
            )
        if self.annealing_steps < 0 or self.warm_up_steps < 0:
            raise ConfigurationError(
                f"{self.annealing_steps} annealing and {self.warm_up_steps} warm-up steps: give 0 or more"
            )

    @property
    def delay(self) -> float:
        """τ_i in optimizer steps."""
        return (2 * (self.stages - self.stage) - 1) / self.micro_batches

    @property
    def decay(self) -> float:
        """γ_i."""
        return float(_DECAY ** (1 / self.delay))

    def rate(self, step: int) -> float:
        """What the learning rate is multiplied by at a step, counted from 0 with the warm-up."""
        if step < self.warm_up_steps or not self.annealing_steps:
            return 1.0
        power = 1 - min((step - self.warm_up_steps) / self.annealing_steps, 1)
        return float(max(self.delay, 1.0) ** -power)


class PipeMareWeights(NewestWeights):
    """One copy of the weights, and δ of T2.

    A graph keeps a reference where it would save a parameter, or a view of one, and reads the weights of the
    time of the backward. What a layer computes from a parameter before it is used, as a cast to another
    type, is saved as it was. With recomputation the second forward reads the weights of its own time.
    """

    def __init__(self, modules: Sequence[nn.Module], rule: PipeMareRule) -> None:
        self.rule = rule
        self.step = 0
        """Optimizer steps so far, the warm-up among them."""
        unique = {id(p): p for module in modules for p in module.parameters() if p.requires_grad}
        self._parameters = tuple(unique.values())
        self._deltas = tuple(torch.zeros_like(p) for p in self._parameters) if rule.correction else ()
        for parameter, delta in zip(self._parameters, self._deltas, strict=False):
            if parameter.stride() != delta.stride():
                raise ConfigurationError(
                    f"a parameter of shape {list(parameter.shape)} has gaps in memory (strides "
                    f"{parameter.stride()}): PipeMare's correction needs it contiguous"
                )
        self._by_storage: dict[int, list[int]] = {}

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold: the step, and δ in the order of the parameters."""
        return {"step": self.step, "deltas": [delta.clone() for delta in self._deltas]}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.step = int(state["step"])
        for delta, saved in zip(self._deltas, state["deltas"], strict=True):
            delta.copy_(saved)

    def saving(self) -> AbstractContextManager[Any]:
        """Have parameters saved by reference, wherever they are in memory by now."""
        self._by_storage = {}
        for number, parameter in enumerate(self._parameters):
            self._by_storage.setdefault(_storage(parameter), []).append(number)
        return saved_tensors_hooks(self._pack, self._unpack)

    @contextmanager
    def updating(
        self, optimizer: torch.optim.Optimizer, _version: int, /
    ) -> Iterator[Mapping[nn.Parameter, nn.Parameter]]:
        """Around an optimizer step: its learning rate by T1, and δ of T2 afterwards."""
        rate = self.rule.rate(self.step)
        rates = [group["lr"] for group in optimizer.param_groups]
        before = [parameter.detach().clone() for parameter in self._parameters] if self._deltas else []
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * rate
        try:
            yield {}
        finally:
            for group, learning_rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = learning_rate
        self.step += 1
        gamma = self.rule.decay
        for delta, parameter, old in zip(self._deltas, self._parameters, before, strict=False):
            delta.mul_(gamma).add_(parameter.detach() - old, alpha=1 - gamma)

    def _pack(self, saved: Tensor) -> "Tensor | _Reference":
        for number in self._by_storage.get(_storage(saved), ()):
            parameter = self._parameters[number]
            offset = saved.storage_offset() - parameter.storage_offset()
            if saved.dtype == parameter.dtype and 0 <= offset < parameter.numel():
                return _Reference(number, tuple(saved.shape), saved.stride(), int(offset))
        return saved.detach()  # a node that kept its own output would never be let go

    def _unpack(self, kept: "Tensor | _Reference") -> Tensor:
        """The weights of now, corrected: u = w − τ·δ."""
        if isinstance(kept, Tensor):
            return kept
        now = self._seen(self._parameters[kept.number].detach(), kept)
        if not self._deltas or self.step < self.rule.warm_up_steps:
            return now
        return now.sub(self._seen(self._deltas[kept.number], kept), alpha=self.rule.delay)

    @staticmethod
    def _seen(whole: Tensor, kept: "_Reference") -> Tensor:
        return whole.as_strided(kept.shape, kept.stride, whole.storage_offset() + kept.offset)


@dataclass(frozen=True)
class _Reference:
    """A parameter, or a view of it."""

    number: int
    shape: tuple[int, ...]
    stride: Sequence[int]
    offset: int
    """Of its first element within the parameter."""


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
