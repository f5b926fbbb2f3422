"""GPipe: every rank runs all forwards, then all backwards; N micro-batches stay alive."""

from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Integers, Kind, Op
from tuner.schedules.scheme import one_pipe


def placement(variant: Variant) -> Integers:
    """Stage s on rank s."""
    return one_pipe(variant.depth)


def steps(variant: Variant) -> Ranks:
    """Forwards and backwards in the same order of micro-batches."""
    ranks: Ranks = []
    for stage in range(variant.depth):
        forwards = [(Op(Kind.F, 0, stage, m),) for m in range(variant.micro_batches)]
        backwards = [(Op(Kind.B, 0, stage, m),) for m in range(variant.micro_batches)]
        ranks.append([*forwards, *backwards])
    return ranks


RECIPE = Recipe("gpipe", placement, steps)
