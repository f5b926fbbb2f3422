"""Is what several processes measure at once one profile?"""

from executor.measuring.neighbours import mean_profile
from tests.tuner.test_measured_profiles import point, profile


def test_times_are_the_means_of_all_processes() -> None:
    """Point by point; what one of them lacks is the first one's."""
    one = profile(point(1, 1.0, recomputed_backward_s=0.1), point(2, 1.0))
    other = profile(point(1, 3.0, recomputed_backward_s=0.3), point(2, 1.5, recomputed_backward_s=1.0))
    merged = mean_profile([one, other])
    first, second = merged.timings.types[0].points
    assert (first.forward_s, first.backward_s, first.recomputed_backward_s) == (0.1, 0.2, 0.2)
    assert (second.forward_s, second.backward_s, second.recomputed_backward_s) == (0.125, 0.25, None)
    assert "2 processes at the same time" in merged.timings.notes[0]
    assert mean_profile([one]) == one
