"""Of which sizes is communication beside computation measured, and what is told of it?"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch.distributed as dist

from executor.measuring.link_rounds import values_of
from executor.measuring.overlap_rounds import Exchange, Rounds, beside_collectives, two_collectives

Beside = Literal["collective", "exposed", "hidden", "two"]
"""A collective, or messages that ranks wait for, or that computation hides; or two collectives at once."""
Where = Literal["inside", "between"]

LARGEST_MESSAGE_BYTES = 2**20
"""Larger ones would take longer than the computation that is to hide them."""


@dataclass(frozen=True)
class Overlapped:
    """What communication of one size and computation took beside each other."""

    where: Where
    beside: Beside
    processes: int
    message_bytes: int
    rounds: Rounds
    span_s: tuple[float, float]
    """Start and end on the monotonic clock of the first process."""


def measure_messages(
    sizes: Sequence[int],
    where: Where,
    *,
    group: dist.ProcessGroup,
    upward: dist.ProcessGroup,
    budget_s: float,
) -> list[Overlapped]:
    """Between the two members of both groups; `budget_s` for each size and way."""
    found = []
    for size in _some([size for size in sizes if size <= LARGEST_MESSAGE_BYTES] or sizes):
        exchange = Exchange(size, group=group, upward=upward)
        ways: dict[Beside, Callable[[float], Rounds]] = {
            "exposed": exchange.exposed,
            "hidden": exchange.hidden,
        }
        for beside, measure in ways.items():
            took = partial(measure, budget_s)
            found.append(_overlapped(took, where, beside, size=size, group=group))
    return found


def measure_collectives(
    sizes: Sequence[int], where: Where, *, group: dist.ProcessGroup, budget_s: float
) -> list[Overlapped]:
    """Over all members of a group; `budget_s` for each size and way."""
    found = []
    for size in _some(sizes):
        values = values_of(size, dist.get_world_size(group))
        ways: dict[Beside, Callable[..., Rounds]] = {"collective": beside_collectives, "two": two_collectives}
        for beside, measure in ways.items():
            took = partial(measure, values, group=group, budget_s=budget_s)
            found.append(_overlapped(took, where, beside, size=size, group=group))
    return found


def read_overlap(found: Mapping[str, Any]) -> Overlapped:
    """One as another process has told it."""
    rounds = Rounds(**{name: tuple(seconds) for name, seconds in found["rounds"].items()})
    return Overlapped(**{**found, "rounds": rounds, "span_s": tuple(found["span_s"])})


def _some(sizes: Sequence[int]) -> list[int]:
    """Every other size, with the smallest and the largest."""
    ordered = sorted(set(sizes))
    return sorted({*ordered[::2], ordered[-1]})


def _overlapped(
    measure: Callable[[], Rounds], where: Where, beside: Beside, *, size: int, group: dist.ProcessGroup
) -> Overlapped:
    start_s = time.monotonic()
    rounds = measure()
    return Overlapped(where, beside, dist.get_world_size(group), size, rounds, (start_s, time.monotonic()))
