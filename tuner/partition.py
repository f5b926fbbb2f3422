"""Which layers make a stage? Contiguous runs, every layer exactly once, at least one block in each."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from tuner.errors import RequestError

_ROUNDING = 1 + 1e-9
"""Slack on the bottleneck, so that rounding cannot make the optimum infeasible."""


def even_counts(blocks: int, depth: int) -> tuple[int, ...]:
    """Blocks per stage, differing by at most one, the larger first (the paper's cut where D divides L)."""
    _check_depth(blocks, depth)
    small, larger = divmod(blocks, depth)
    return tuple(small + (stage < larger) for stage in range(depth))


def balanced_counts(
    block_s: Sequence[float], depth: int, *, first_s: float = 0.0, last_s: float = 0.0
) -> tuple[int, ...]:
    """Blocks per stage with the smallest slowest stage, and among those as near to equal time as can be.

    block_s: seconds of each block; first_s, last_s: seconds of what stands before the first block
    (embedding) and after the last one (head and loss), which belong to the first and the last stage.
    """
    blocks = len(block_s)
    _check_depth(blocks, depth)
    if depth == 1:
        return (blocks,)
    ends = list(accumulate(block_s, initial=0.0))
    if min(block_s) == max(block_s):
        bottleneck = _equal_bottleneck(ends, depth, first_s=first_s, last_s=last_s) * _ROUNDING
        earliest = _pack_equal(ends, depth, last_s=last_s, limit=bottleneck)
    else:
        bottleneck = _bottleneck(ends, depth, first_s=first_s, last_s=last_s) * _ROUNDING
        earliest = _pack(ends, depth, last_s=last_s, limit=bottleneck)
    return _cut(ends, earliest, bottleneck, first_s=first_s, last_s=last_s)


def _check_depth(blocks: int, depth: int) -> None:
    if not 1 <= depth <= blocks:
        raise RequestError(f"depth {depth} needs at least as many blocks, and the model has {blocks}")


def _cut(
    ends: list[float], earliest: list[int], bottleneck: float, *, first_s: float, last_s: float
) -> tuple[int, ...]:
    """From the front, each cut as near as can be to an equal share of what is left, within the bottleneck.

    A last stage that is heavier by its head alone is left out of the sharing.
    """
    blocks, depth = len(ends) - 1, len(earliest) - 1
    least_last = last_s + ends[-1] - ends[-2]
    cuts = [0]
    for stage in range(depth - 1):
        start, before = cuts[-1], first_s if stage == 0 else 0.0
        left = before + ends[-1] - ends[start] + last_s
        share = left / (depth - stage)
        if least_last > share:
            share = (left - least_last) / (depth - stage - 1)
        ideal = ends[start] + share - before
        low = max(start + 1, earliest[stage + 1])
        high = min(blocks - (depth - stage - 1), bisect_right(ends, ends[start] + bottleneck - before) - 1)
        cuts.append(_nearest(ends, ideal, low=low, high=max(low, high)))
    cuts.append(blocks)
    return tuple(after - before for before, after in pairwise(cuts))


def _nearest(ends: list[float], ideal: float, *, low: int, high: int) -> int:
    cut = min(max(bisect_right(ends, ideal), low), high)
    return cut - 1 if cut > low and ideal - ends[cut - 1] <= ends[cut] - ideal else cut


def _bottleneck(ends: list[float], depth: int, *, first_s: float, last_s: float) -> float:
    """Smallest time of the slowest stage, by bisection."""
    total = ends[-1] + first_s + last_s
    low, high = 0.0, total
    while high - low > 1e-9 * total:
        middle = (low + high) / 2
        cut = max(1, _pack(ends, depth, last_s=last_s, limit=middle)[1])
        fits = cut < len(ends) and ends[cut] + first_s <= middle
        low, high = (low, middle) if fits else (middle, high)
    return high


def _pack(ends: list[float], depth: int, *, last_s: float, limit: float) -> list[int]:
    """For each stage the earliest first block from which it and all later stages keep within `limit`.

    Packs from the end, at least one block each; what cannot be packed gives a cut beyond the last block.
    """
    blocks = len(ends) - 1
    earliest = [blocks + 1] * depth + [blocks]
    end, after = blocks, last_s
    for stage in range(depth - 1, 0, -1):
        start = bisect_left(ends, ends[end] + after - limit)
        if start >= end:
            return earliest
        earliest[stage] = end = max(start, stage)
        after = 0.0
    return earliest


def _equal_bottleneck(ends: list[float], depth: int, *, first_s: float, last_s: float) -> float:
    """The same for blocks of equal time: one of the times that a stage can have, found by bisection."""
    block_s, blocks = ends[1], len(ends) - 1
    if not block_s:
        return max(first_s, last_s)
    times = sorted(
        extra + count * block_s for extra in {0.0, first_s, last_s} for count in range(1, blocks + 1)
    )

    def holds(position: int) -> bool:
        limit = times[position] * _ROUNDING
        counts = [int((limit - extra) / block_s) for extra in (first_s, 0.0, last_s)]
        return min(counts) >= 1 and counts[0] + (depth - 2) * counts[1] + counts[2] >= blocks

    return times[bisect_left(range(len(times)), True, key=holds)]


def _pack_equal(ends: list[float], depth: int, *, last_s: float, limit: float) -> list[int]:
    """`_pack` for blocks of equal time."""
    block_s, blocks = ends[1], len(ends) - 1
    each = int(limit / block_s) if block_s else blocks
    final = int((limit - last_s) / block_s) if block_s else blocks
    before = [max(stage, blocks - final - (depth - 1 - stage) * each) for stage in range(1, depth)]
    return [0, *before, blocks]
