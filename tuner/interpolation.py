"""What lies between the micro-batch sizes that were profiled, and beyond them?"""

import numpy as np

from profiles.timings import TypeTimings
from tuner.schedules.scheme import Floats, Integers


def interpolate_times(timings: TypeTimings, field: str, sizes: Integers) -> Floats:
    """Piecewise linear in B; beyond the ends the last slope, below the first at least in proportion to B."""
    known = np.array([point.micro_batch_size for point in timings.points], dtype=np.float64)
    values = np.array([getattr(point, field) for point in timings.points], dtype=np.float64)
    return _along(known, values, sizes.astype(np.float64))


def interpolate_bytes(timings: TypeTimings, field: str, sizes: Integers, *, fallback: Floats) -> Floats:
    """As `interpolate_times` where every point has the figure, else `fallback`."""
    if any(getattr(point, field) is None for point in timings.points):
        return fallback
    return interpolate_times(timings, field, sizes)


def _along(known: Floats, values: Floats, sizes: Floats) -> Floats:
    inside: Floats = np.interp(sizes, known, values)
    if len(known) == 1:
        return np.asarray(values[0] * sizes / known[0])
    above = values[-1] + (sizes - known[-1]) * max(0.0, (values[-1] - values[-2]) / (known[-1] - known[-2]))
    slope = (values[1] - values[0]) / (known[1] - known[0])
    below = np.maximum(values[0] - (known[0] - sizes) * slope, values[0] * sizes / known[0])
    result: Floats = np.where(sizes > known[-1], above, np.where(sizes < known[0], below, inside))
    return result
