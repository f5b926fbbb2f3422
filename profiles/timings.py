"""How long does each layer take on a device, at which micro-batch sizes, and who says so?"""

from itertools import pairwise
from typing import Annotated, Self

from pydantic import Field, model_validator

from profiles.document import (
    FIRST_FAULT,
    Attention,
    Count,
    Document,
    Name,
    Part,
    PositiveCount,
    PositiveRate,
    PositiveSeconds,
    Precision,
    Provenance,
    Seconds,
)
from profiles.model import ModelDescription


class TimingPoint(Part):
    """Times and bytes of one layer at one micro-batch size."""

    micro_batch_size: PositiveCount
    forward_s: PositiveSeconds
    backward_s: PositiveSeconds
    """The whole backward, without recomputation."""
    input_backward_s: Seconds | None = None
    weight_backward_s: Seconds | None = None
    spread: Annotated[float, Field(ge=0)] | None = None
    """Relative spread of the repeats, None where it is not known."""
    activation_bytes: Count | None = None
    """Measured bytes kept; overrides the description's."""
    transient_bytes: Count | None = None
    """Measured transient peak; overrides the description's."""
    recomputed_backward_s: Seconds | None = None
    """A backward that runs its forward again first."""
    boundary_bytes: Count | None = None
    """Measured bytes of what the layer hands on."""
    repeats: PositiveCount | None = None
    """How many times it was timed; the times are medians."""
    outliers: Count | None = None
    """Repeats further than three interquartile ranges from the median."""

    @model_validator(mode="after")
    def _parts_take_time(self) -> Self:
        if self.input_backward_s == 0 and self.weight_backward_s == 0:
            raise ValueError(
                f"input_backward_s and weight_backward_s are both 0 at B={self.micro_batch_size}, where "
                f"backward_s is {self.backward_s:g}: leave them out where they were not measured"
            )
        return self


class Environment(Part):
    """The machine and the software that times were taken on."""

    device: Name
    """As its driver calls it."""
    driver: Annotated[str, Field(max_length=200)] | None = None
    software: dict[Name, Name] = Field(default_factory=dict)
    """Versions by name: python, torch, transformers, cuda, ..."""
    clocks_hz: dict[Name, PositiveRate] = Field(default_factory=dict)
    """Clocks at the end of the measurement, and the highest ones where known."""
    cores: PositiveCount | None = None
    """Processors that the process may run on."""
    threads: PositiveCount | None = None
    """Threads that computed; ranks on a CPU run one each."""
    memory_bytes: PositiveCount | None = None


class TypeTimings(Part):
    """Times of all layers of one type."""

    type: Name
    shape: dict[str, int | str] = Field(default_factory=dict)
    """The layer's shape; published timings apply to any layer of equal shape."""
    provenance: Provenance
    points: Annotated[tuple[TimingPoint, ...], FIRST_FAULT, Field(min_length=1, max_length=1_000)]
    """One point for each profiled micro-batch size, in rising order."""
    update_s: Seconds | None = None
    """Optimizer step of the layer's parameters; None where it was not profiled."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        sizes = [point.micro_batch_size for point in self.points]
        if any(a >= b for a, b in pairwise(sizes)):
            raise ValueError(f"micro-batch sizes must rise without repeats, got {sizes}")
        return self


class LayerTimings(Document):
    """Times of a model's layer types on one device, at one sequence length and precision."""

    kind_name = "layer timings"

    name: Name
    accelerator: Name
    software: Name
    precision: Precision
    attention: Attention
    sequence_length: PositiveCount
    source: Annotated[str, Field(max_length=2_000)] = ""
    environment: Environment | None = None
    """Where they were measured."""
    notes: Annotated[tuple[Annotated[str, Field(max_length=2_000)], ...], Field(max_length=100)] = ()
    """What to know of the measurement: a loaded machine, sizes left out."""
    optimizer: Name | None = None
    """Whose steps `update_s` are."""
    largest_micro_batch_size: PositiveCount | None = None
    """Largest size that every layer was run at, where larger ones were asked for but did not fit."""
    types: Annotated[tuple[TypeTimings, ...], FIRST_FAULT, Field(min_length=1, max_length=1_000)]

    @model_validator(mode="after")
    def _types_once(self) -> Self:
        names = [timings.type for timings in self.types]
        if len(set(names)) != len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"layer type {twice!r} appears twice: leave one of its timings out")
        return self


class Profile(Document):
    """A description and its timings on one device: what `chimera profile` writes."""

    kind_name = "profile"

    description: ModelDescription
    timings: LayerTimings

    @model_validator(mode="after")
    def _match(self) -> Self:
        description, timings = self.description, self.timings
        for field in ("precision", "attention", "sequence_length"):
            described, timed = getattr(description, field), getattr(timings, field)
            if described != timed:
                raise ValueError(f"{field} differs: description {described}, timings {timed}")
        missing = {layer.type for layer in description.layers} - {entry.type for entry in timings.types}
        if missing:
            raise ValueError(
                f"no timings for layer types {sorted(missing)}: take the profile again, or the layers out"
            )
        return self
