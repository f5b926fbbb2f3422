"""How do the stages that a rank holds add up? From values of stages [b, p, s] to values of ranks [b, w]."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from tuner.schedules.scheme import Floats, Integers, Scheme
from tuner.stage_costs import StageCosts


@lru_cache(maxsize=1024)
def placement_of(scheme: Scheme, depth: int, pipe_pairs: int) -> Integers:
    """Rank of each stage [p, s], made once for all that ask; not to be written to."""
    placement = scheme.placement(depth, pipe_pairs)
    placement.setflags(write=False)
    return placement


def to_ranks(values: Floats, placement: Integers, how: Literal["sum", "max", "min"]) -> Floats:
    """Combine [b, p, s] over the stages that each rank holds [b, w]."""
    if len(placement) == 1 and placement.shape[1] == placement[0, -1] + 1:
        return values[:, 0, :]
    return np.asarray(getattr(by_rank(values, placement), how)(axis=1), dtype=np.float64)


def by_rank(values: Floats, placement: Integers) -> Floats:
    """[b, p, s] or [b, 1, s] as [b, h, w]: what rank w holds, its h stages one after the other."""
    places, stages = _held(placement.tobytes(), placement.shape)
    if values.shape[1] == 1:  # the same for all pipes
        return np.asarray(values[:, 0, stages])
    return np.asarray(values.reshape(len(values), -1)[:, places])


@lru_cache(maxsize=1024)
def _held(placement: bytes, shape: tuple[int, int]) -> tuple[Integers, Integers]:
    """What each rank holds [h, w]: places in the stages of all pipes one after the other, and stages."""
    pipes, stages = shape
    ranks = np.frombuffer(placement, dtype=np.int64).reshape(shape)
    depth = int(ranks.max()) + 1
    order = np.argsort(ranks, axis=1, kind="stable").reshape(pipes, depth, stages // depth)
    held = np.moveaxis(order, 2, 1).reshape(-1, depth)
    pipe = np.repeat(np.arange(pipes), stages // depth)[:, None]
    return pipe * stages + held, held


def rank_parameters(stages: StageCosts, placement: Integers) -> Floats:
    """Parameters of each rank; members of a tied group on one rank are one copy [b, w]."""
    sizes = [size for size, _ in stages.tied]
    return _with_tied(stages.parameters, sizes, stages=stages, placement=placement)


def rank_update_s(stages: StageCosts, placement: Integers) -> Floats | None:
    """Measured optimizer step of each rank, counted alike [b, w]; None where it is not known."""
    if stages.update is None:
        return None
    return _with_tied(stages.update.untied_s, stages.update.tied_s, stages=stages, placement=placement)


def _with_tied(untied: Floats, tied: Sequence[float], *, stages: StageCosts, placement: Integers) -> Floats:
    total = to_ranks(untied[:, None, :], placement, "sum")
    for value, (_, member) in zip(tied, stages.tied, strict=True):
        total = total + value * to_ranks(member[:, None, :], placement, "max")
    return total
