"""Chimera: 1F1B in both directions on the same ranks, filling each other's bubbles (SC'21, section 3)."""

from collections.abc import Iterator

from tuner.schedules.chimera import Chimera
from tuner.schedules.generators import chimera_scaling
from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Integers, Kind, Op


def placement(variant: Variant) -> Integers:
    """Pipe 2i goes down from rank i·D/f and wraps; pipe 2i + 1 is its reverse."""
    return Chimera().placement(variant.depth, variant.pipe_pairs)


def steps(variant: Variant) -> Ranks:
    """The orders of section 3.1, and of section 3.5 for N > D."""
    if variant.scaling == "direct":
        return [[(op,) for op in row] for row in direct_order(variant, backward=Kind.B)]
    if variant.scaling == "doubling":
        return chimera_scaling.doubling(variant.depth, variant.micro_batches // variant.depth)
    return chimera_scaling.halving(variant.depth, variant.micro_batches // variant.depth)


def direct_order(variant: Variant, *, backward: Kind) -> Iterator[list[Op]]:
    """Direct concatenation, rank by rank, by slots: no two operations of a rank share one.

    The k-th micro-batch of a pipe in unit u takes slot 2Du + 2k + s for its forward at stage s, and
    2Du + 2k + 2D − 1 − s for its backward.
    """
    depth = variant.depth
    held = placement(variant).argsort(axis=1).T.tolist()
    slots = 2 * depth * (-(-variant.micro_batches // depth) + 1)
    entries = list(_entries(variant))
    for rank in range(depth):
        row: list[Op | None] = [None] * slots
        for m, pipe, entry in entries:
            stage = held[rank][pipe]
            row[entry + stage] = Op(Kind.F, pipe, stage, m)
            row[entry + 2 * depth - 1 - stage] = Op(backward, pipe, stage, m)
        yield [op for op in row if op is not None]


def _entries(variant: Variant) -> Iterator[tuple[int, int, int]]:
    """(micro-batch, pipe, slot in which it enters); each unit of D is split evenly, the first part down."""
    depth, pipes = variant.depth, 2 * variant.pipe_pairs
    for first in range(0, variant.micro_batches, depth):
        count = min(depth, variant.micro_batches - first)
        m = first
        for pipe in range(pipes):
            for k in range((count + pipes - 1 - pipe) // pipes):
                yield m, pipe, 2 * first + 2 * k
                m += 1


def illegal(variant: Variant) -> str | None:
    """What the paper's construction cannot do."""
    half, odd = divmod(variant.depth, 2)
    if odd:
        return "it needs an even depth"
    if half % variant.pipe_pairs:
        return f"pipe_pairs must divide D/2, and {variant.pipe_pairs} does not divide {half}"
    if variant.scaling != "direct" and variant.pipe_pairs > 1:
        return f"{variant.scaling} runs two pipes, not {2 * variant.pipe_pairs}: use scaling direct"
    if variant.scaling != "direct" and variant.micro_batches % variant.depth:
        return f"{variant.scaling} needs D to divide N: use scaling direct"
    return None


RECIPE = Recipe(
    "chimera", placement, steps, illegal=illegal, replicas=2, options=frozenset({"scaling", "pipe_pairs"})
)
