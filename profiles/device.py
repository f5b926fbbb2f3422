"""What can an accelerator do, according to its data sheet?"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from profiles.document import (
    Document,
    Fraction,
    Name,
    Part,
    PositiveCount,
    PositiveRate,
    Precision,
    Provenance,
    Seconds,
)


class Efficiency(Part):
    """The share of its peak that a device reaches, as a curve over the size of the work.

    A layer of `f` FLOPs and `b` bytes of traffic takes
    `launch_s + (f + half_peak_flops) / (peak * matmul_peak_share) + b / (bandwidth * bandwidth_share)`,
    that is, its products run at `peak * matmul_peak_share * f / (f + half_peak_flops)`.
    """

    matmul_peak_share: Fraction
    """Share of peak FLOP/s that large matrix products reach."""
    half_peak_flops: Annotated[float, Field(ge=0)]
    """Work of one layer at which half of `matmul_peak_share` is reached."""
    bandwidth_share: Fraction
    """Share of the memory bandwidth that element-wise work reaches."""
    launch_s: Seconds
    """Time to launch a layer's kernels when they are small."""
    provenance: Provenance
    source: Annotated[str, Field(min_length=1, max_length=2_000)]


class Accelerator(Document):
    """The data sheet of one accelerator."""

    kind_name = "accelerator"

    name: Name
    vendor: Name
    peak_flops: dict[Precision, PositiveRate]
    """Dense peak FLOP/s of matrix products by precision, as frameworks use the device by default."""
    memory_bytes: PositiveCount
    """Memory that the driver reports (not the figure on the box)."""
    memory_bandwidth_bytes_per_s: PositiveRate
    efficiency: Efficiency
    sources: Annotated[dict[str, str], Field(min_length=1)]
    """Where each figure comes from, by field."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if "float32" not in self.peak_flops:
            raise ValueError("peak_flops must name float32")
        unsourced = {"peak_flops", "memory_bytes", "memory_bandwidth_bytes_per_s"} - set(self.sources)
        if unsourced:
            raise ValueError(f"no source for {sorted(unsourced)}")
        return self
