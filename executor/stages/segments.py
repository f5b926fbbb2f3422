"""What is kept of a run of layers between its forward and its backward?

A segment is a run of layers whose inputs are leaves of their own graph. It keeps the graph; or only the
inputs, and then its forward is run a second time before the backward.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, saved_tensors_hooks
from torch.func import functional_call

from executor.errors import ModelError
from executor.models.loss import Loss
from executor.stages.buffers import ChangingBuffers
from executor.stages.edges import edge_of, run_backward
from executor.stages.seeding import seed_layer
from executor.stages.split_backward import SplitBackward
from executor.stages.versions import Version, Weights
from executor.values import Tensors, as_tensors
from executor.works import Passage

Gradients = Sequence[Tensor | None]
"""One for each output or input; None where it has no gradient."""


class Draw(NamedTuple):
    """What a forward computes: a part of a micro-batch, on a version of the weights."""

    passage: Passage
    part: int = 0
    seed: int | None = None
    """Of the run; None leaves the generators as they are."""
    version: Version | None = None
    """None: the modules' own weights, whatever they are."""
    target: Tensor | None = None


class Segment:
    """Some layers of a stage, and the loss behind the last of them."""

    def __init__(
        self,
        modules: Sequence[nn.Module],
        *,
        place: int,
        first_layer: int,
        keeps_graph: bool,
        loss: Loss | None = None,
    ) -> None:
        """`place` is the number of its first layer within the stage, `first_layer` that within the model."""
        self.modules = tuple(modules)
        self.keeps_graph = keeps_graph
        self.buffers = ChangingBuffers(modules)
        self._place = place
        self.first_layer = first_layer
        self._loss = loss
        self._clones_inputs: bool | None = (_changes_inputs(modules[0]) or None) if modules else False
        """Whether its layers work on copies of what comes in; None until the first forward has told."""

    def run(
        self, inputs: Tensors, draw: Draw, *, buffers: Sequence[Mapping[str, Tensor]] | None = None
    ) -> Tensors:
        """The layers one after the other; with a target the loss takes the place of the outputs."""
        values = inputs if self._clones_inputs is False else tuple(value.clone() for value in inputs)
        first = values
        version = None if draw.version is None or draw.version.newest else draw.version
        (iteration, micro_batch), part, seed = draw.passage, draw.part, draw.seed
        for number, module in enumerate(self.modules):
            try:
                if seed is not None:
                    layer = self.first_layer + number
                    seed_layer(seed, iteration=iteration, micro_batch=micro_batch, part=part, layer=layer)
                if version is None and buffers is None:
                    given = module(*values)
                else:
                    given = functional_call(module, self._replaced(number, version, buffers), values)
                values = as_tensors(given)
            except Exception as error:
                layer = self.first_layer + number
                error.add_note(f"in the forward of layer {layer} ({type(module).__name__})")
                raise
        if self._clones_inputs is None and not torch.is_inference_mode_enabled():
            self._clones_inputs = any(value._version for value in first)
        if self._loss is None or draw.target is None:
            return values
        return (self._loss.loss_function(values, draw.target),)

    def _replaced(
        self, number: int, version: Version | None, buffers: Sequence[Mapping[str, Tensor]] | None
    ) -> dict[str, Tensor]:
        """What a layer reads in place of its own weights and buffers, by name."""
        replaced: dict[str, Tensor] = {}
        if version is not None:
            replaced.update(version.layers[self._place + number])
        if buffers is not None:
            replaced.update(buffers[number])
        return replaced


class SegmentPass:
    """A part of a micro-batch in a segment: forward, perhaps again, then backward in one step or two."""

    # Of the class, until they are set: a pass is made for every micro-batch, between two messages.
    _inputs: Tensors | None = None
    """Kept for a second forward, detached, with their flags."""
    _buffers: Sequence[Mapping[str, Tensor]] | None = None
    """What they were before the first forward, where it changed them."""
    _leaves: Sequence[Tensor | None] = ()
    """The inputs that need a gradient, in the graph that is kept."""
    _roots: Sequence[GradientEdge | None] = ()
    """The outputs, in the graph that is kept; their values are not held."""
    _split: SplitBackward | None = None
    _deferred: Gradients | None = None
    """What arrived at the outputs, where no input needs a gradient and the parameters may wait."""
    recomputed = False
    """Whether it holds a graph that was computed a second time."""

    def __init__(self, segment: Segment, draw: Draw, *, weights: Weights) -> None:
        self._segment = segment
        self._draw = draw
        self._weights = weights

    def forward(self, inputs: Tensors) -> Tensors:
        """Detached outputs, whose `requires_grad` says which need a gradient."""
        if self._segment.keeps_graph:
            return _fresh(self._record(inputs, None))
        before = self._segment.buffers.copies()
        versions = [value._version for value in inputs]
        self._inputs = _fresh(inputs)
        with torch.enable_grad(), saved_tensors_hooks(drop, refuse):
            outputs = _fresh(self._segment.run(_fresh(inputs), self._draw))
        self._buffers = self._segment.buffers.learn(before)
        if versions != [value._version for value in inputs]:
            raise ModelError(
                f"layer {self._segment.first_layer} changed its input in place, which recomputation needs "
                "again: let it work on a copy, or do without recomputation"
            )
        return outputs

    def recompute(self) -> None:
        """Bring the graph back, where only the inputs were kept."""
        if self._inputs is None:
            return
        inputs, self._inputs = self._inputs, None
        buffers, self._buffers = self._buffers, None
        self._record(inputs, buffers)
        self.recomputed = True

    def backward(self, gradients: Gradients) -> Gradients:
        """The inputs' gradients; the parameters' are added up, and the graph is let go."""
        self.recompute()
        roots, arrived = self._paired(gradients)
        if roots:
            run_backward(roots, arrived)
        leaves = self._let_go()
        self.recomputed = False
        return [None if leaf is None else _gradient(leaf, leaf.grad) for leaf in leaves]

    def input_backward(self, gradients: Gradients) -> Gradients:
        """The inputs' gradients alone."""
        inputs = self._leaves if self._inputs is None else self._inputs
        if not any(value is not None and value.requires_grad for value in inputs):
            self._deferred = gradients
            return [None] * len(inputs)
        self.recompute()
        roots, arrived = self._paired(gradients)
        leaves = self._let_go()
        self._split = SplitBackward(roots, arrived, [leaf for leaf in leaves if leaf is not None])
        found = iter(self._split.inputs())
        return [None if leaf is None else _gradient(leaf, next(found)) for leaf in leaves]

    def weight_backward(self) -> None:
        """Add up the parameters' gradients; the graph is let go."""
        if self._deferred is not None:
            gradients, self._deferred = self._deferred, None
            self.backward(gradients)
        elif self._split is not None:
            split, self._split = self._split, None
            split.weights()
        self.recomputed = False

    def _record(self, inputs: Tensors, buffers: Sequence[Mapping[str, Tensor]] | None) -> Tensors:
        """A forward whose graph is kept, on new leaves: what a layer hooks to its input does not pile up."""
        leaves = _fresh(inputs)
        saving = self._weights.saving()
        if saving is None:
            outputs = self._segment.run(leaves, self._draw, buffers=buffers)
        else:
            with saving:
                outputs = self._segment.run(leaves, self._draw, buffers=buffers)
        self._leaves = [leaf if leaf.requires_grad else None for leaf in leaves]
        self._roots = [edge_of(value) if value.requires_grad else None for value in outputs]
        return outputs

    def _paired(self, gradients: Gradients) -> tuple[list[GradientEdge], list[Tensor]]:
        """Outputs that have a graph, and what arrived for them."""
        pairs = [
            (root, gradient)
            for root, gradient in zip(self._roots, gradients, strict=True)
            if root is not None and gradient is not None
        ]
        return [root for root, _ in pairs], [gradient for _, gradient in pairs]

    def _let_go(self) -> Sequence[Tensor | None]:
        leaves, self._leaves, self._roots = self._leaves, (), ()
        return leaves


def _fresh(values: Tensors) -> Tensors:
    """Detached leaves on the same memory, with the same flags."""
    return tuple(
        value.detach().requires_grad_() if value.requires_grad else value.detach() for value in values
    )


def _gradient(leaf: Tensor, gradient: Tensor | None) -> Tensor:
    """Zeros for an input that was not used."""
    return torch.zeros_like(leaf) if gradient is None else gradient


def drop(saved: Tensor) -> None:
    """Keep nothing of a graph that is only asked which outputs need a gradient."""


def refuse(dropped: None) -> Tensor:  # noqa: ARG001 - the hook is given what was kept
    """For what asks for a value of such a graph."""
    raise ModelError(
        "a layer differentiates within its own forward, which recomputation and probing cannot do: "
        "run it without recomputation, or detach what it differentiates"
    )


def _changes_inputs(module: nn.Module) -> bool:
    """Whether it says that it works in place, as torch's activations do: its input may be needed again."""
    return any(getattr(part, "inplace", False) is True for part in module.modules())
