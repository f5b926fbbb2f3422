"""Where does the memory of a device go, and how much is left?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from api.reports.quantities import NO_BREAK
from tuner.plan import RankMemory

PARTS = {
    "weights": "Weights",
    "gradients": "Gradients",
    "optimizer": "Optimizer state",
    "activations": "Activations",
    "recompute": "Recomputation",
    "loss": "Loss",
    "transient": "Transient",
    "communication": "Communication",
    "framework": "Framework",
    "reserve": "Kept free (margin)",
}
"""Parts of a rank's memory in the order in which they are stacked: model state, working set, overhead."""


@dataclass(frozen=True)
class Fullest:
    """The fullest rank against its device."""

    rank: int
    total_bytes: int
    """With the reserve."""
    capacity_bytes: int
    parts: tuple[tuple[str, str, int], ...]
    """Key, label and bytes of the parts that are not zero."""

    @property
    def free_bytes(self) -> int:
        """What is left beyond the reserve, which is kept free on purpose; negative where it does not fit."""
        return self.capacity_bytes - self.total_bytes

    @property
    def figures(self) -> dict[str, str]:
        """GB that it needs, that the device has, and that are left: as they are rounded, they add up."""
        decimals = 2 if abs(self.free_bytes) >= 1e9 else 3
        has, left = round(self.capacity_bytes / 1e9, decimals), round(self.free_bytes / 1e9, decimals)
        shown = {"needs": has - left, "has": has, "left": left, "lacks": -left}
        return {key: f"{value:,.{decimals}f}{NO_BREAK}GB" for key, value in shown.items()}


def fullest(ranks: Sequence[RankMemory], capacity_bytes: int) -> Fullest:
    """The rank that needs the most."""
    rank = max(ranks, key=lambda entry: entry.total_bytes)
    return Fullest(
        rank=rank.rank,
        total_bytes=rank.total_bytes,
        capacity_bytes=capacity_bytes,
        parts=tuple((key, label, size) for key, label in PARTS.items() if (size := _size(rank, key))),
    )


def shown_parts(ranks: Sequence[RankMemory]) -> list[tuple[str, str, list[int]]]:
    """Key, label and bytes per rank of the parts that some rank has."""
    found = ((key, label, [_size(rank, key) for rank in ranks]) for key, label in PARTS.items())
    return [(key, label, sizes) for key, label, sizes in found if any(sizes)]


def memory_chart(ranks: Sequence[RankMemory], capacity_bytes: int) -> dict[str, Any]:
    """What the chart of memory per rank draws, in GB."""
    return {
        "capacity": capacity_bytes / 1e9,
        "ranks": [rank.rank for rank in ranks],
        "parts": [
            {"key": key, "label": label, "sizes": [size / 1e9 for size in sizes]}
            for key, label, sizes in shown_parts(ranks)
        ],
    }


def _size(rank: RankMemory, part: str) -> int:
    return int(getattr(rank, f"{part}_bytes"))
