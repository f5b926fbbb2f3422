"""How do the stages that a rank holds add up? From values of stages [b, p, s] to values of ranks [b, w]."""

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tuner.schedules.scheme import Floats, Integers, Scheme
from tuner.stage_costs import StageCosts

_HOW = {"sum": np.add, "max": np.maximum, "min": np.minimum}


@lru_cache(maxsize=1024)
def placement_of(scheme: Scheme, depth: int, pipe_pairs: int) -> Integers:
    """Rank of each stage [p, s], made once for all that ask; not to be written to."""
    placement = scheme.placement(depth, pipe_pairs)
    placement.setflags(write=False)
    return placement


def to_ranks(values: Floats, placement: Integers, how: Literal["sum", "max", "min"]) -> Floats:
    """Combine [b, p, s], or [b, 1, s] of all pipes, over the stages that each rank holds [b, w]."""
    return reduce(_HOW[how], by_rank(values, placement))


def by_rank(values: NDArray[Any], placement: Integers) -> list[NDArray[Any]]:
    """[b, p, s], or [b, 1, s] of all pipes, as [b, w] for each of the stages that a rank holds."""
    same = values.shape[1] == 1
    return [
        values[:, 0 if same else pipe, stages] for pipe, stages in _held(placement.tobytes(), placement.shape)
    ]


@lru_cache(maxsize=1024)
def _held(placement: bytes, shape: tuple[int, int]) -> tuple[tuple[int, slice | Integers], ...]:
    """One pipe and its stages in the order of the ranks, for each stage that a rank holds."""
    pipes, stages = shape
    ranks = np.frombuffer(placement, dtype=np.int64).reshape(shape)
    depth = int(ranks.max()) + 1
    order = np.argsort(ranks, axis=1, kind="stable").reshape(pipes, depth, stages // depth)
    return tuple(
        (pipe, _as_slice(order[pipe, :, chunk])) for pipe in range(pipes) for chunk in range(stages // depth)
    )


def _as_slice(places: Integers) -> slice | Integers:
    """The same places as a slice where they are neighbours, which copies nothing."""
    first, steps = int(places[0]), np.diff(places)
    if (steps == 1).all():
        return slice(first, first + len(places))
    if (steps == -1).all():
        last = int(places[-1])
        return slice(first, last - 1 if last else None, -1)
    return places.copy()


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
