"""DualPipe: two directions, and a forward of one fused with a backward of the other (DeepSeek-V3)."""

from collections import deque
from collections.abc import Iterator

from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Integers, Kind, Op, Step
from tuner.schedules.scheme import two_way

MAIN, OTHER = 0, 1
"""Of its two pipes a rank is nearer to the start of its main one."""

Turn = tuple[Kind, int]


def placement(variant: Variant) -> Integers:
    """Down: stage s on rank s; up: stage s on rank D − 1 − s."""
    return two_way(variant.depth)


def steps(variant: Variant) -> Ranks:
    """The first half of the micro-batches goes down, the second up; weight gradients wait in one queue."""
    depth, half = variant.depth, variant.micro_batches // 2
    ranks: Ranks = []
    for rank in range(depth):
        main = 0 if rank < depth // 2 else 1
        held = (rank, depth - 1 - rank)
        forwards, backwards = [0, half], [0, half]
        pending: deque[Op] = deque()
        row: list[Step] = []
        for turns in _phases(depth, min(held), half):
            step: list[Op] = []
            for kind, which in turns:
                pipe = main if which == MAIN else 1 - main
                if kind == Kind.W:
                    step.append(pending.popleft())
                    continue
                next_of = forwards if kind == Kind.F else backwards
                step.append(Op(kind, pipe, held[pipe], next_of[pipe]))
                if kind == Kind.I:
                    pending.append(Op(Kind.W, pipe, held[pipe], next_of[pipe]))
                next_of[pipe] += 1
            row.append(tuple(step))
        ranks.append(row)
    return ranks


def _phases(depth: int, near: int, half: int) -> Iterator[tuple[Turn, ...]]:
    """What a rank `near` places from the end of the line does with N/2 micro-batches a direction."""
    inner = depth // 2 - 1 - near
    F0, F1 = (Kind.F, MAIN), (Kind.F, OTHER)
    B0, B1 = (Kind.B, MAIN), (Kind.B, OTHER)
    I0, I1, W = (Kind.I, MAIN), (Kind.I, OTHER), (Kind.W, MAIN)  # W: the oldest of either pipe
    yield from [(F0,)] * (2 * inner)
    yield from [(F0,), (F1,)] * (near + 1)
    yield from [(I1,), (W,), (F1,)] * inner
    if inner:
        yield (F0, B1)
    else:  # The ranks in the middle do not hold up each other's first backward.
        yield from [(F0,), (B1,)]
    yield (F1, B0)
    yield from [(F0, B1), (F1, B0)] * (half - depth + near)
    yield from [(B1,), (F1, B0)] * inner
    for number, which in enumerate([OTHER, MAIN] * (near + 1)):
        yield ((Kind.B if number <= near else Kind.I, which),)
    yield from [(W,), (I0,)] * inner
    yield from [(W,)] * (near + 1)


def illegal(variant: Variant) -> str | None:
    """Both directions must be full."""
    if variant.depth % 2:
        return "it needs an even depth"
    if variant.micro_batches % 2 or variant.micro_batches < 2 * variant.depth:
        return f"it needs an even number of at least 2D = {2 * variant.depth} micro-batches"
    return None


RECIPE = Recipe("dualpipe", placement, steps, illegal=illegal, replicas=2, splits_backward=True)
