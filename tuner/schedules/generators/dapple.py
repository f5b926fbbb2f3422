"""DAPPLE, 1F1B with a flush: after a warm-up, each backward makes room for one forward."""

from collections.abc import Iterator

from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Integers, Kind, Op
from tuner.schedules.scheme import one_pipe


def placement(variant: Variant) -> Integers:
    """Stage s on rank s."""
    return one_pipe(variant.depth)


def steps(variant: Variant) -> Ranks:
    """Stage s keeps min(N, D − s) micro-batches alive."""
    return [
        [(Op(kind, 0, stage, m),) for kind, m in one_f_one_b(variant.micro_batches, variant.depth - stage)]
        for stage in range(variant.depth)
    ]


def one_f_one_b(count: int, alive: int) -> Iterator[tuple[Kind, int]]:
    """min(count, alive) forwards, then backward and forward in turn, then the backwards that are left."""
    warm_up = min(count, alive)
    for m in range(warm_up):
        yield Kind.F, m
    for m in range(count - warm_up):
        yield Kind.B, m
        yield Kind.F, m + warm_up
    for m in range(count - warm_up, count):
        yield Kind.B, m


RECIPE = Recipe("dapple", placement, steps)
