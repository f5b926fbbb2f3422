"""What does one replica of a stage compute for every operation of a program?"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from executor.errors import BoundaryError, ExecutorError, ModelError
from executor.models.loss import Loss
from executor.stages import halving
from executor.stages.buffers import all_copies
from executor.stages.passages import LivePassages, Part
from executor.stages.seeding import uses_cuda
from executor.stages.segments import Draw, Gradients, Segment, SegmentPass, drop, refuse
from executor.stages.versions import NewestWeights, Weights
from executor.values import Spec, Tensors, specs_of
from executor.works import Passage, Target

Recompute = Literal["none", "stage", "layer"]

Kinds = tuple[tuple[torch.Size, torch.dtype, bool], ...]
"""Shape, dtype and whether a gradient is needed, of every tensor of a value."""


class Stage:
    """Layers of a model, one after the other, each called with the tensors that the one before gave.

    Values that cross cuts are detached leaves; `requires_grad` says of each whether it gets a gradient. A
    gradient message has a tensor for each of those, in order. A passage is one micro-batch; halving
    (`parts` = 2) runs its halves as graphs of their own, with one forward and a backward each.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        *,
        first_layer: int = 0,
        recompute: Recompute = "none",
        seed: int = 0,
        loss: Loss | None = None,
        weights: Weights | None = None,
        cut_at_layers: bool = False,
    ) -> None:
        """`seed` is the run's; `loss` stands in the last stage.

        cut_at_layers: keep a graph for each layer, as split backwards want it: their search in a graph grows
        with the square of its depth.
        """
        self.modules = tuple(modules)
        self.loss = loss
        self.loss_scale = 1.0
        """By which the gradients of the loss are multiplied (float16)."""
        self.weights: Weights = NewestWeights() if weights is None else weights
        self._seed = seed
        self._segments = _cut(
            self.modules,
            first_layer,
            loss,
            by_layer=recompute == "layer" or cut_at_layers,
            keeps_graph=recompute == "none",
        )
        self.live = LivePassages()
        self._losses: dict[Passage, list[tuple[float, Tensor]]] = {}
        self._needs: dict[Kinds, tuple[bool, ...]] = {}
        """Which outputs need a gradient, by the kinds of the inputs, as probed."""
        self._last_weight: tuple[float, Tensor] | None = None
        """The gradient of a loss, and what it is full of: it is the same for most micro-batches."""

    def probe(self, inputs: Sequence[Spec | Tensor], *, parts: int = 1) -> tuple[Spec, ...]:
        """What a forward gives for such inputs, found by running one on zeros in the caller's grad mode.

        Buffers, gradients and random numbers stay as they were.
        """
        device = self._device()
        values = tuple(
            torch.zeros(value.shape, dtype=value.dtype, device=device, requires_grad=value.needs_gradient)
            if isinstance(value, Spec)
            else value.detach().requires_grad_(value.requires_grad)
            for value in inputs
        )
        cuda = [torch.cuda.current_device()] if uses_cuda() else []
        draw = Draw(Passage(0, 0), seed=self._seed)
        (given, *_) = halving.cut(values, parts)
        with torch.random.fork_rng(devices=cuda), saved_tensors_hooks(drop, refuse):
            for segment in self._segments:
                given = segment.run(given, draw, buffers=all_copies(segment.modules))
        specs = tuple(halving.joined_spec(spec, parts) for spec in specs_of(given))
        if torch.is_grad_enabled():
            self._needs[_kinds(values)] = tuple(spec.needs_gradient for spec in specs)
        return specs

    def forward(
        self,
        passage: Passage,
        inputs: Tensors,
        *,
        parts: int = 1,
        version: int = 0,
        target: Target | None = None,
    ) -> Tensors:
        """Detached outputs; none where a target is given, and the loss is kept for `take_loss`."""
        self.live.refuse(passage)
        read = self.weights.read(version)
        ends = target is not None and self.loss is not None
        needs = self._needs.get(_kinds(inputs)) if self._needs and not ends else None
        targets: list[Tensors] = [()] * parts if target is None else halving.cut((target.tensor,), parts)
        live: list[Part] = []
        outputs: list[Tensors] = []
        for part, (values, answer) in enumerate(zip(halving.cut(inputs, parts), targets, strict=True)):
            draw = Draw(passage, part, self._seed, read, *answer)
            passes = [SegmentPass(segment, draw, weights=self.weights) for segment in self._segments]
            given = values
            for one in passes:
                given = one.forward(given)
            if ends and target is not None:
                live.append(Part(passes, (), self._keep_loss(passage, given[0], draw=draw, target=target)))
            else:
                outputs.append(_agreed(given, needs))
                live.append(Part(passes, tuple(value.requires_grad for value in outputs[-1])))
        self.live.add(passage, live)
        return halving.joined(outputs)

    def backward(self, passage: Passage, gradients: Tensors, *, part: int = 0) -> Tensors:
        """Gradients of the inputs that need one, zeros where one was not used; adds up the parameters'."""
        one = self.live.waiting(passage, part, split=False)
        values = one.arrived(gradients)
        for each in reversed(one.passes):
            values = each.backward(values)
        self.live.remove(passage, part)
        return tuple(value for value in values if value is not None)

    def input_backward(self, passage: Passage, gradients: Tensors, *, part: int = 0) -> Tensors:
        """Gradients of the inputs alone."""
        one = self.live.waiting(passage, part, split=False)
        values = one.arrived(gradients)
        one.split = True
        for each in reversed(one.passes):
            values = each.input_backward(values)
        return tuple(value for value in values if value is not None)

    def weight_backward(self, passage: Passage, *, part: int = 0) -> None:
        """Add up the parameters' gradients of a part whose inputs have theirs."""
        one = self.live.waiting(passage, part, split=True)
        while one.passes:
            one.passes.pop().weight_backward()
        self.live.remove(passage, part)

    def recompute(self, passage: Passage, *, part: int = 0) -> None:
        """Bring back early what the backward needs; nothing to do where it was kept."""
        for one in self.live.waiting(passage, part, split=False).passes:
            one.recompute()

    def take_loss(self, passage: Passage) -> Tensor:
        """The mean loss of a micro-batch, detached and unscaled; it is told once."""
        kept = self._losses.pop(passage, None)
        if kept is None:
            raise ExecutorError(
                f"no loss is kept of {passage}: its forward had no target here, or it was taken"
            )
        if len(kept) == 1:
            return kept[0][1]
        total = sum(count for count, _ in kept) or 1.0
        return torch.stack([count / total * loss for count, loss in kept]).sum()

    def evaluate(self, inputs: Tensors) -> Tensors:
        """Outputs without gradients, on the newest weights; the caller has put the modules into eval mode."""
        with torch.no_grad():
            for segment in self._segments:
                inputs = segment.run(inputs, Draw(Passage(0, 0)))
        return inputs

    def forget(self) -> None:
        """Let go of all that is alive, as after an error."""
        self.live.clear()
        self._losses.clear()

    def _keep_loss(self, passage: Passage, loss: Tensor, *, draw: Draw, target: Target) -> Gradients:
        """Keep the loss without its graph; gives the gradient of n_m·loss/Σn, times the loss scale."""
        if self.loss is None or draw.target is None:
            return ()
        known = target.count if draw.target is target.tensor else None
        count = self.loss.count(draw.target) if known is None else known
        # A copy: torch's mean squared error on a CPU gives a number that keeps the memory of all differences.
        self._losses.setdefault(passage, []).append((count, loss.detach().clone()))
        weight = self.loss_scale * count / target.total if target.total else 0.0
        last = self._last_weight
        if last is None or last[0] != weight or last[1].dtype != loss.dtype:
            last = self._last_weight = weight, torch.full_like(loss, weight, requires_grad=False)
        return [last[1]]

    def _device(self) -> torch.device:
        for module in self.modules:
            for value in (*module.parameters(), *module.buffers()):
                return value.device
        return torch.device("cuda", torch.cuda.current_device()) if uses_cuda() else torch.device("cpu")


def _cut(
    modules: Sequence[nn.Module], first_layer: int, loss: Loss | None, *, by_layer: bool, keeps_graph: bool
) -> tuple[Segment, ...]:
    """One segment, or one for each layer; the loss belongs to the last."""
    size = 1 if by_layer else len(modules)
    places = range(0, len(modules), size) if modules else range(1)
    return tuple(
        Segment(
            modules[place : place + size],
            place=place,
            first_layer=first_layer + place,
            keeps_graph=keeps_graph,
            loss=loss if place == places[-1] else None,
        )
        for place in places
    )


def _kinds(values: Tensors) -> Kinds:
    return tuple((value.shape, value.dtype, value.requires_grad) for value in values)


def _agreed(outputs: Tensors, needs: tuple[bool, ...] | None) -> Tensors:
    """Outputs with the flags that were announced by probing, since the next stage counts on them."""
    if needs is None:
        return outputs
    if len(outputs) != len(needs):
        raise BoundaryError(
            f"a stage gave {len(outputs)} tensors where it gave {len(needs)} when it was probed"
        )
    for place, (value, needed) in enumerate(zip(outputs, needs, strict=True)):
        if value.requires_grad and not needed:
            raise ModelError(
                f"output {place} of {len(needs)} needs a gradient for this micro-batch and needed none when "
                "the stage was probed with zeros: whether one is needed must follow from the shapes alone"
            )
        if needed:
            value.requires_grad_()
    return outputs
