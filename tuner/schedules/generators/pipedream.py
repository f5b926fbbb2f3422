"""PipeDream: 1F1B without a flush, an update per micro-batch; a backward reads what its forward read."""

import numpy as np

from tuner.schedules.generators.dapple import one_f_one_b, placement
from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Integers, Kind, Op, Step


def steps(variant: Variant) -> Ranks:
    """Version v of a stage has seen the micro-batches before v of all iterations."""
    count = variant.micro_batches
    ranks: Ranks = []
    for stage in range(variant.depth):
        row: list[Step] = []
        read: dict[int, int] = {}
        newest = 0
        for kind, number in one_f_one_b(count * variant.iterations, variant.depth - stage):
            iteration, m = divmod(number, count)
            if kind == Kind.F:
                read[number] = newest
            else:
                newest += 1
            row.append((Op(kind, 0, stage, m, 0, 1, read[number], iteration),))
        ranks.append(row)
    return ranks


def weight_versions(depth: int) -> Integers:
    """One for every micro-batch that is alive: D − s."""
    return depth - np.arange(depth, dtype=np.int64)


RECIPE = Recipe(
    "pipedream",
    placement,
    steps,
    synchronous=False,
    updates="micro_batch",
    weight_versions=weight_versions,
)
