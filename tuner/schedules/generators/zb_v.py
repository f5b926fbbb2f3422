"""ZB-V: two chunks a rank in a V; the rank that starts a micro-batch ends it too (Zero Bubble, section 6)."""

import numpy as np

from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Integers, Kind, Op, Step


def placement(variant: Variant) -> Integers:
    """Stages s and 2D − 1 − s on rank s."""
    ranks = np.arange(variant.depth, dtype=np.int64)
    return np.concatenate([ranks, ranks[::-1]])[None, :]


def steps(variant: Variant) -> Ranks:
    """The phases of a full pipe of at least 2D − 1 micro-batches, less those that are not there."""
    ranks: Ranks = []
    for rank in range(variant.depth):
        held = (rank, 2 * variant.depth - 1 - rank)
        count: dict[str, int] = {}
        row: list[Step] = []
        for times, turns in _phases(variant.depth, rank, max(variant.micro_batches, 2 * variant.depth - 1)):
            for turn in turns.split() * times:
                m = count[turn] = count.get(turn, -1) + 1
                if m < variant.micro_batches:
                    row.append((Op(Kind[turn[0]], 0, held[int(turn[1])], m),))
        ranks.append(row)
    return ranks


def _phases(depth: int, rank: int, micro_batches: int) -> list[tuple[int, str]]:
    """How often a rank does what; 0 and 1 are its two chunks. Packed when F, I and W take equally long."""
    after = depth - rank
    return [
        (2 * after - 1, "F0"),
        (rank, "F1 F0"),
        (after, "F1 I1 W1"),
        (micro_batches - depth - after + 1, "F0 I0 W0 F1 I1 W1"),
        (after - 1, "I0 W0 F1 I1 W1"),
        (rank, "I0 I1"),
        (after, "I0 W0"),
        (rank, "W1"),
        (rank, "W0"),
    ]


def illegal(variant: Variant) -> str | None:
    """A V has two arms."""
    return None if variant.chunks == 2 else f"it has 2 chunks, not {variant.chunks}"


RECIPE = Recipe(
    "zb_v",
    placement,
    steps,
    illegal=illegal,
    splits_backward=True,
    chunks=2,
    options=frozenset({"chunks"}),
)
