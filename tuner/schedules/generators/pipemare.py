"""PipeMare: 1F1B without a flush and one copy of the weights; all read the newest (arXiv 1910.05124)."""

from tuner.schedules.generators.dapple import one_f_one_b, placement
from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Kind, Op, Step


def steps(variant: Variant) -> Ranks:
    """A stage has version v when the backwards of v mini-batches are done: its forwards may be behind."""
    count = variant.micro_batches
    ranks: Ranks = []
    for stage in range(variant.depth):
        row: list[Step] = []
        done = 0
        for kind, number in one_f_one_b(count * variant.iterations, variant.depth - stage):
            iteration, m = divmod(number, count)
            row.append((Op(kind, 0, stage, m, 0, 1, done // count, iteration),))
            done += kind == Kind.B
        ranks.append(row)
    return ranks


RECIPE = Recipe("pipemare", placement, steps, synchronous=False)
