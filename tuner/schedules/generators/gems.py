"""GEMS: two replicas in opposite directions; each micro-batch starts when the one before turns back."""

from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Integers, Kind, Op, Step
from tuner.schedules.scheme import two_way


def placement(variant: Variant) -> Integers:
    """Down: stage s on rank s; up: stage s on rank D − 1 − s."""
    return two_way(variant.depth)


def steps(variant: Variant) -> Ranks:
    """F_down B_down F_up B_up and so on; even micro-batches go down, odd ones up."""
    ranks: Ranks = []
    for rank in range(variant.depth):
        held = (rank, variant.depth - 1 - rank)
        row: list[Step] = []
        for m in range(variant.micro_batches):
            pipe = m % 2
            row.append((Op(Kind.F, pipe, held[pipe], m),))
            row.append((Op(Kind.B, pipe, held[pipe], m),))
        ranks.append(row)
    return ranks


def illegal(variant: Variant) -> str | None:
    """Both replicas need a rank of their own at every stage."""
    return "it needs an even depth" if variant.depth % 2 else None


RECIPE = Recipe("gems", placement, steps, illegal=illegal, replicas=2)
