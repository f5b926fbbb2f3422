"""Interleaved 1F1B: every rank holds several chunks, which shortens warm-up and drain (Megatron-LM)."""

import numpy as np

from tuner.schedules.generators.recipe import Ranks, Recipe, Variant
from tuner.schedules.program import Integers, Kind, Op, Step


def placement(variant: Variant) -> Integers:
    """Stage c·D + r is chunk c of rank r."""
    return np.tile(np.arange(variant.depth, dtype=np.int64), variant.chunks)[None, :]


def steps(variant: Variant) -> Ranks:
    """Groups of D micro-batches pass chunk after chunk, backwards in the reverse order of chunks."""
    depth, chunks = variant.depth, variant.chunks
    turns = [
        (chunk, first + m)
        for first in range(0, variant.micro_batches, depth)
        for chunk in range(chunks)
        for m in range(depth)
    ]
    ranks: Ranks = []
    for rank in range(depth):
        forwards: list[Step] = [(Op(Kind.F, 0, c * depth + rank, m),) for c, m in turns]
        backwards: list[Step] = [(Op(Kind.B, 0, (chunks - 1 - c) * depth + rank, m),) for c, m in turns]
        warm_up = min(len(turns), 2 * (depth - 1 - rank) + (chunks - 1) * depth)
        ranks.append(_one_f_one_b(forwards, backwards, warm_up))
    return ranks


def _one_f_one_b(forwards: list[Step], backwards: list[Step], warm_up: int) -> list[Step]:
    """The warm-up's forwards, then a forward and a backward in turn, then the backwards that are left."""
    row = forwards[:warm_up]
    for forward, backward in zip(forwards[warm_up:], backwards, strict=False):
        row += [forward, backward]
    return row + backwards[len(forwards) - warm_up :]


def illegal(variant: Variant) -> str | None:
    """Groups of D micro-batches must be full, and one chunk would warm up twice too long."""
    if variant.chunks < 2:
        return "it needs at least 2 chunks: dapple is its form with one"
    if variant.micro_batches % variant.depth:
        return "it needs D to divide N"
    return None


RECIPE = Recipe("interleaved", placement, steps, illegal=illegal, chunks=2, options=frozenset({"chunks"}))
