"""What is in a model: its layers in order, with parameters, FLOPs and bytes, and no device."""

from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from profiles.document import FIRST_FAULT, Attention, Count, Document, Name, Part, PositiveCount, Precision

LayerKind = Literal["embedding", "block", "head", "loss"]


class Bytes(Part):
    """Bytes that grow with the micro-batch: `fixed + per_sample * B`."""

    per_sample: Count
    """Bytes for each sample of the micro-batch."""
    fixed: Count = 0
    """Bytes that do not depend on the micro-batch (a mask, position ids)."""

    def at(self, micro_batch_size: int) -> int:
        """Bytes for a micro-batch of `micro_batch_size` samples."""
        return self.fixed + self.per_sample * micro_batch_size


class Layer(Part):
    """One layer: what it computes and what it keeps, at the description's sequence length and precision."""

    name: Name
    """Unique within the model, as "layers.0"."""
    type: Name
    """Layers of equal type are alike, so a profile times one of them: "block", "block.sliding"."""
    kind: LayerKind
    shape: dict[str, int | str] = Field(default_factory=dict)
    """What decides the layer's cost; published timings are matched by it: family, hidden_size, heads, ..."""
    parameters: Count
    """All parameters that the layer reads, the tied ones included."""
    active_parameters: Count
    """Parameters used for one token (all of them unless experts are routed)."""
    tied_group: Name | None = None
    """Name of the group whose parameters this layer shares with others."""
    tied_parameters: Count = 0
    """How many of `parameters` belong to `tied_group`; the model holds them once."""
    forward_flops: Count
    """Floating-point operations of one sample's forward (a multiply-add is two)."""
    backward_flops: Count
    """Floating-point operations of one sample's backward, without recomputation."""
    activation_bytes: Bytes
    """Bytes saved by the forward for the backward, as unique storages without the parameters."""
    transient_bytes: Bytes
    """Largest extra bytes alive only while the layer runs."""
    arriving_bytes: Bytes | None = None
    """Gradients at the results of parameters, which a split backward keeps until the weight gradient runs.

    None where they are not known: then they are taken to be as large as all that the layer keeps.
    """
    cut_bytes: Bytes
    """All that crosses a cut made after this layer, forward; the gradient coming back is as large."""

    @model_validator(mode="after")
    def _tied_within_parameters(self) -> Self:
        if self.tied_parameters > self.parameters:
            raise ValueError(f"tied_parameters {self.tied_parameters} exceed parameters {self.parameters}")
        if (self.tied_group is None) != (self.tied_parameters == 0):
            raise ValueError("tied_group and tied_parameters go together")
        return self


class ModelDescription(Document):
    """A model as a list of layers; embedding, head and loss are layers too."""

    kind_name = "model description"

    name: Name
    family: Name
    sequence_length: PositiveCount
    precision: Precision
    """Precision of compute and activations; bfloat16 and float16 are mixed, with float32 master weights."""
    attention: Attention
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    hidden_size: PositiveCount
    vocabulary_size: PositiveCount
    source: Literal["arithmetic", "traced", "uploaded"] = "arithmetic"
    layers: Annotated[tuple[Layer, ...], FIRST_FAULT, Field(min_length=1, max_length=10_000)]

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """Positions of the blocks in `layers`; their number bounds the depth of a pipeline."""
        return tuple(i for i, layer in enumerate(self.layers) if layer.kind == "block")

    @cached_property
    def parameters(self) -> int:
        """Parameters of the model, each tied group counted once."""
        total = sum(layer.parameters - layer.tied_parameters for layer in self.layers)
        return total + sum(self.tied_groups().values())

    @cached_property
    def sample_flops(self) -> int:
        """Floating-point operations of one sample, forward and backward, without recomputation."""
        return sum(layer.forward_flops + layer.backward_flops for layer in self.layers)

    def tied_groups(self) -> dict[str, int]:
        """Parameters of each tied group."""
        return {layer.tied_group: layer.tied_parameters for layer in self.layers if layer.tied_group}

    @model_validator(mode="after")
    def _sound(self) -> Self:
        names = [layer.name for layer in self.layers]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"layer {twice!r} appears twice")
        if not self.blocks:
            raise ValueError("there is no layer of kind 'block', so nothing can be cut into stages")
        groups: dict[str, int] = {}
        for layer in self.layers:
            if (
                layer.tied_group
                and groups.setdefault(layer.tied_group, layer.tied_parameters) != layer.tied_parameters
            ):
                raise ValueError(f"the members of tied group {layer.tied_group!r} differ in size")
        order = ["embedding", "block", "head", "loss"]
        ranks = [order.index(layer.kind) for layer in self.layers]
        if ranks != sorted(ranks):
            raise ValueError("layers must stand in the order embedding, blocks, head, loss")
        kinds: dict[str, Layer] = {}
        for layer in self.layers:
            first = kinds.setdefault(layer.type, layer)
            if first.model_copy(update={"name": layer.name}) != layer:
                raise ValueError(
                    f"layers {first.name!r} and {layer.name!r} share type {layer.type!r} but differ"
                )
        return self
