"""Which configurations resemble each other? Features whose weights are learnt from few trials.

Every feature is scaled so that a weight of standard deviation 1 is what one expects of it beforehand.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.configuration import Configuration
from tuner.schedules.scheme import Floats, Integers
from tuner.sparse_rows import Rows

_COMMON = 0.5
"""All configurations together: another clock, another kernel library."""
_SHARE = 2.0
"""A part of the iteration, such as messages, that takes three times as long as predicted."""
_SLOPE = 0.03
"""A doubling of a size."""
_BEND = 0.01
"""What the slope changes by with each doubling of the micro-batch size."""
_GROUPS = {
    "schedule": 0.05,
    "recompute": 0.05,
    "scaling": 0.03,
    "pipes": 0.03,
    "layout": 0.05,
    "size": 0.03,
    "schedule and layout": 0.03,
}
"""What the members of a group have in common, beyond all that is above."""
_SLOPES = {"schedule": 0.02, "layout": 0.02}
"""A doubling of the micro-batch size within a group."""
_MANY = 2**24
"""More than there are devices."""


@dataclass(frozen=True)
class Known:
    """What of a configuration is compared."""

    configuration: Configuration
    shares: tuple[float, ...] = ()


def features(known: Sequence[Known]) -> Rows:
    """Features of configurations; which there are depends on all of them."""
    ran = [each.configuration for each in known]
    groups = {
        "schedule": _numbered([each.schedule for each in ran]),
        "recompute": _numbered([each.recompute for each in ran]),
        "scaling": _numbered([each.scaling for each in ran]),
        "pipes": _numbered([each.pipe_pairs for each in ran]),
        "layout": _numbered([each.width * _MANY + each.depth for each in ran]),
        "size": _numbered([each.micro_batch_size for each in ran]),
    }
    groups["schedule and layout"] = _numbered((groups["schedule"] * len(ran) + groups["layout"]).tolist())
    size = np.log2([each.micro_batch_size for each in ran])
    depth = np.log2([each.depth for each in ran])
    common = np.stack([np.full(len(ran), _COMMON), _SLOPE * size, _SLOPE * depth, _BEND * size**2], axis=1)
    parts = [_numbers(common), _numbers(_shares(known))]
    parts += [_members(groups[name], np.full(len(ran), scale)) for name, scale in _GROUPS.items()]
    parts += [_members(groups[name], scale * size) for name, scale in _SLOPES.items()]
    return Rows.beside(parts)


def _numbered(values: Sequence[str] | Sequence[int]) -> Integers:
    """Equal values get equal numbers below the number of values [row]."""
    return np.asarray(np.unique(np.array(values), return_inverse=True)[1], dtype=np.int64)


def _numbers(values: Floats) -> Rows:
    """A column for each number that all rows have [row, number]."""
    count = values.shape[1]
    return Rows(np.tile(np.arange(count), (len(values), 1)), values, count)


def _members(groups: Integers, values: Floats) -> Rows:
    """A column for each group, the value of a row in that of its own."""
    return Rows(groups[:, None], values[:, None], int(groups.max(initial=-1)) + 1)


def _shares(known: Sequence[Known]) -> Floats:
    """Shares of the iteration by part; 0 where they are not known [row, part]."""
    parts = max(len(each.shares) for each in known)
    return _SHARE * np.array([each.shares or (0.0,) * parts for each in known]).reshape(len(known), parts)
