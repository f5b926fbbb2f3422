"""Why was a configuration rejected, in numbers?"""

from dataclasses import dataclass
from typing import Any, Literal

from tuner.evaluated import Evaluated
from tuner.plan import ConfigurationDocument, Rejected
from tuner.space import Layout

RefusalKind = Literal["memory", "batch", "layout", "target", "domain"]

_HINTS = {
    "activations": "a smaller micro-batch, recomputation or a larger depth",
    "recompute": "a smaller micro-batch or recompute=layer",
    "loss": "a smaller micro-batch",
    "transient": "a smaller micro-batch",
    "communication": "a smaller micro-batch",
    "weights": "a larger depth",
    "gradients": "a larger depth or gradient_precision=same",
    "optimizer": "a larger depth or optimizer_sharding=replicas",
    "framework": "a device with more memory",
}

_HINTS_AT_ONE = _HINTS | {
    "activations": "recomputation or a larger depth",
    "recompute": "recompute=layer or a larger depth",
    "loss": "a device with more memory",
    "transient": "a device with more memory",
    "communication": "a device with more memory",
}
"""Where the micro-batch is one sample already."""


@dataclass(frozen=True)
class Refusal:
    """A schedule on a (W, D), or a whole (W, D), that was not taken."""

    kind: RefusalKind
    reason: str
    layout: Layout
    schedule: str | None = None

    def known(self) -> dict[str, Any]:
        """What of the configuration was decided."""
        known: dict[str, Any] = {"width": self.layout.width, "depth": self.layout.depth}
        return known | ({"schedule": self.schedule} if self.schedule else {})

    def document(self) -> Rejected:
        """As it stands in the plan."""
        return Rejected(
            configuration=ConfigurationDocument(**self.known()), reason=self.reason, kind=self.kind
        )


@dataclass(frozen=True)
class MemoryRefusal:
    """A configuration that does not fit; the reason is worded only when it is read."""

    evaluated: Evaluated
    index: int
    kind: RefusalKind = "memory"

    @property
    def layout(self) -> Layout:
        """Its (W, D)."""
        return self.evaluated.variant.layout

    @property
    def reason(self) -> str:
        """The fullest rank, its largest parts, and what would make them smaller."""
        rank = int(self.evaluated.total_bytes[self.index].argmax())
        parts = self.evaluated.memory.row(self.index, rank)
        named = {part: parts[f"{part}_bytes"] for part in _HINTS}
        hints = _HINTS if self.evaluated.micro_batch_sizes[self.index] > 1 else _HINTS_AT_ONE
        first, second = sorted(named, key=lambda part: -named[part])[:2]
        return (
            f"rank {rank} needs {gigabytes(parts['total_bytes'])} "
            f"of {gigabytes(self.evaluated.capacity_bytes)}, "
            f"{gigabytes(parts['reserve_bytes'])} kept free included ({first} {gigabytes(named[first])}, "
            f"{second} {gigabytes(named[second])}): use {hints[first]}"
        )

    def known(self) -> dict[str, Any]:
        """The whole configuration."""
        return self.evaluated.configuration(self.index).document()

    def document(self) -> Rejected:
        """As it stands in the plan."""
        return Rejected(
            configuration=ConfigurationDocument(**self.known()), reason=self.reason, kind=self.kind
        )


def gigabytes(size: float) -> str:
    """Bytes for people, in GB = 1e9 bytes: "91.2 GB", "0.442 GB"."""
    billions = size / 1e9
    return f"{billions:.1f} GB" if billions >= 10 else f"{billions:.2f} GB"
