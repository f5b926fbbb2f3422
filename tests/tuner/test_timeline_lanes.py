"""Can what lies in a lane be drawn on one line?"""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tuner.timeline_lanes import lanes

Intervals = list[tuple[int, int, int]]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5), st.integers(0, 2)), max_size=40))
def test_lanes_keep_intervals_apart_and_are_as_few_as_can_be(intervals: Intervals) -> None:
    """As many as are open at once, for each owner."""
    start = np.array([begin for begin, _, _ in intervals], dtype=np.float64)
    end = start + np.array([length for _, length, _ in intervals], dtype=np.float64)
    owner = [of for _, _, of in intervals]
    chosen = lanes(start, end, owner).tolist()
    for of in set(owner):
        mine = [number for number in range(len(owner)) if owner[number] == of]
        deepest = max(
            sum(other == number or start[other] <= start[number] < end[other] for other in mine)
            for number in mine
        )
        assert max(chosen[number] for number in mine) < deepest
        for one in mine:
            for other in mine:
                overlap = start[one] < end[other] and start[other] < end[one]
                assert one == other or chosen[one] != chosen[other] or not overlap
