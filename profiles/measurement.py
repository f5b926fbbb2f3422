"""What did running a configuration give?"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from profiles.document import (
    FIRST_FAULT,
    Attention,
    Document,
    Name,
    Part,
    PositiveCount,
    PositiveRate,
    PositiveSeconds,
    Precision,
)

Status = Literal["ok", "out_of_memory"]


class ModelShape(Part):
    """A model given by its sizes, where no preset has it."""

    family: Name
    hidden_size: PositiveCount
    heads: PositiveCount
    layers: PositiveCount
    sequence_length: PositiveCount
    vocabulary: PositiveCount


class MeasuredConfiguration(Part):
    """The configuration that ran."""

    schedule: Name
    width: PositiveCount
    depth: PositiveCount
    micro_batch_size: PositiveCount
    mini_batch_size: PositiveCount
    recompute: Literal["none", "stage", "layer"] = "none"
    scaling: Literal["direct", "doubling", "halving"] = "direct"
    pipe_pairs: PositiveCount = 1
    chunks: PositiveCount = 1

    @field_validator("recompute", mode="before")
    @classmethod
    def _read_flag(cls, value: Any) -> Any:
        return {True: "stage", False: "none"}.get(value, value) if isinstance(value, bool) else value


class PeakMemory(Part):
    """Peak memory over the ranks, in GB (1e9 bytes)."""

    max: Annotated[float, Field(gt=0)]
    min: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} exceeds max {self.max:g}: are they the other way round?")
        return self


class Measurement(Part):
    """One run and its result."""

    model: Name | ModelShape
    cluster: Name
    devices: PositiveCount
    sequence_length: PositiveCount
    precision: Precision
    attention: Attention | None = None
    """None is what the preset or the profile has; eager for a model given by its sizes, as GPT-2 and BERT
    were written before fused kernels."""
    configuration: MeasuredConfiguration
    status: Status
    throughput_samples_per_s: PositiveRate | None = None
    iteration_s: PositiveSeconds | None = None
    peak_memory_gb: PeakMemory | None = None
    peak_memory_bytes: Annotated[tuple[PositiveCount, ...], FIRST_FAULT] | None = None
    where: Annotated[str, Field(max_length=500)] | None = None

    @model_validator(mode="after")
    def _has_a_result(self) -> Self:
        values = (
            self.throughput_samples_per_s,
            self.iteration_s,
            self.peak_memory_gb,
            self.peak_memory_bytes,
        )
        if self.status == "ok" and all(value is None for value in values):
            raise ValueError("status is ok but there is neither a time nor a memory figure")
        return self

    @model_validator(mode="after")
    def _one_time(self) -> Self:
        if self.iteration_s is None or self.throughput_samples_per_s is None:
            return self
        told_s = self.configuration.mini_batch_size / self.throughput_samples_per_s
        if not 0.98 < told_s / self.iteration_s < 1.02:
            raise ValueError(
                f"iteration_s {self.iteration_s:g} and throughput_samples_per_s "
                f"{self.throughput_samples_per_s:g}, or {told_s:g} s an iteration, differ: leave one out"
            )
        return self


class Measurements(Document):
    """A set of measurements with its source."""

    kind_name = "measurements"

    source: Annotated[str, Field(min_length=1, max_length=5_000)]
    measurements: Annotated[tuple[Measurement, ...], FIRST_FAULT, Field(max_length=100_000)]
