"""Which intervals of a timeline can share a line of a drawing?"""

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from tuner.schedules.program import Integers
from tuner.timeline import Floats


def lanes(start: Floats, end: Floats, owner: Sequence[int] | Integers) -> Integers:
    """The lane of each interval within its owner's, counted from 0; none of a lane overlap, and few are used.

    Each takes the lowest free lane in the order of starts, so that what does not overlap stays in lane 0.
    """
    chosen = np.zeros(len(start), dtype=np.int64)
    busy: dict[int, list[tuple[float, int]]] = {}
    free: dict[int, list[int]] = {}
    used: dict[int, int] = {}
    order = np.lexsort((end, start))
    for number, begin, finish, of in zip(
        order.tolist(),
        start[order].tolist(),
        end[order].tolist(),
        np.asarray(owner)[order].tolist(),
        strict=True,
    ):
        running, idle = busy.setdefault(of, []), free.setdefault(of, [])
        while running and running[0][0] <= begin:
            heappush(idle, heappop(running)[1])
        if idle:
            lane = heappop(idle)
        else:
            lane = used.get(of, 0)
            used[of] = lane + 1
        heappush(running, (finish, lane))
        chosen[number] = lane
    return chosen
