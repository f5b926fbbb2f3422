"""PipeDream-2BW: 1F1B without a flush, a version per mini-batch; every stage reads the last but one."""

import numpy as np

from tuner.schedules.generators.dapple import one_f_one_b, placement
from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Integers, Op, Step


def steps(variant: Variant) -> Ranks:
    """Mini-batch b reads version max(b − 1, 0): w(t+1) = w(t) − ν∇f(w(t−1))."""
    count = variant.micro_batches
    ranks: Ranks = []
    for stage in range(variant.depth):
        row: list[Step] = []
        for kind, number in one_f_one_b(count * variant.iterations, variant.depth - stage):
            iteration, m = divmod(number, count)
            row.append((Op(kind, 0, stage, m, 0, 1, max(iteration - 1, 0), iteration),))
        ranks.append(row)
    return ranks


def illegal(variant: Variant) -> str | None:
    """With fewer, a forward could start before the version that it reads is there."""
    return "it accumulates over N >= D micro-batches" if variant.micro_batches < variant.depth else None


def weight_versions(depth: int) -> Integers:
    """Two, double-buffered."""
    return np.full(depth, 2, dtype=np.int64)


RECIPE = Recipe(
    "pipedream_2bw",
    placement,
    steps,
    illegal=illegal,
    synchronous=False,
    weight_versions=weight_versions,
)
