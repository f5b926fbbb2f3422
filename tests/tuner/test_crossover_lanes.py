"""Is what is drawn of jobs in turns what is predicted of them?"""

from itertools import pairwise

import pytest

from tuner.crossover import cross_over, emulated_jobs
from tuner.crossover_lanes import TURNS, Lanes, crossover_lanes


def busy_s(lanes: Lanes, job: int) -> float:
    """Seconds that all ranks compute for a job."""
    return sum(each.end_s - each.start_s for each in lanes.computing if each.job == job)


@pytest.mark.parametrize("exposed_share", [0.1, 1 / 3, 0.5])
def test_both_ways_do_the_same_work(exposed_share: float) -> None:
    """Every job computes as long; in turns they end earlier, and no rank does two things at once."""
    jobs = emulated_jobs(2, exposed_share=exposed_share, compute_s=0.1)
    alone, shared = crossover_lanes(jobs)
    told = cross_over(jobs)
    assert alone.end_s == pytest.approx(TURNS * told.sequential_s)
    assert shared.end_s < alone.end_s
    assert shared.end_s >= TURNS * told.period_s * 0.999
    for lanes in (alone, shared):
        assert {each.job for each in lanes.gradients} == {0, 1}
        for job in (0, 1):
            assert busy_s(lanes, job) == pytest.approx(TURNS * 0.1, rel=0.01)
        spans = sorted((each.start_s, each.end_s) for each in lanes.computing)
        assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(spans))
