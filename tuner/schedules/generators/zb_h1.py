"""ZB-H1: 1F1B whose weight gradients wait for the bubbles of the drain (Zero Bubble, section 2)."""

from tuner.schedules.generators.dapple import placement
from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Kind, Op, Step


def steps(variant: Variant) -> Ranks:
    """At step x stage s runs F of x, I of x − (D − 1 − s) and W of x − (D − 1); D stay alive."""
    depth, count = variant.depth, variant.micro_batches
    ranks: Ranks = []
    for stage in range(depth):
        delays = ((Kind.F, 0), (Kind.I, depth - 1 - stage), (Kind.W, depth - 1))
        row: list[Step] = []
        for x in range(count + depth - 1):
            row += [(Op(kind, 0, stage, x - delay),) for kind, delay in delays if 0 <= x - delay < count]
        ranks.append(row)
    return ranks


RECIPE = Recipe("zb_h1", placement, steps, splits_backward=True)
