"""Does a comparison with one process find what is no number?"""

from math import inf, nan

import pytest

from executor.running.checking import Check


@pytest.mark.parametrize(
    ("check", "passed"),
    [
        (Check(0.0, 1e-13, 0.0), True),
        (Check(0.0, 1e-9, 0.0), False),
        (Check(0.0, 0.0, 1e-9, (1.0, 1.0, 1e4)), True),
        (Check(inf, 0.0, 0.0, (inf, 1.0, 1.0)), False),
        (Check(0.0, nan, 0.0, (1.0, nan, 1.0)), False),
    ],
)
def test_what_is_infinite_on_both_sides_is_not_equal(check: Check, passed: bool) -> None:
    """However large the numbers that it is measured against."""
    assert check.passes("float64") is passed
