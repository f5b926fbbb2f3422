"""Are numbers rounded for people, with their units?"""

import pytest

from api.reports import quantities


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"),
        (155.78, "156"),
        (9.163, "9.16"),
        (99.97, "100"),
        (9.996, "10.0"),
        (19_940.3, "19,940"),
        (0.0123, "0.012"),
    ],
)
def test_three_digits_are_enough(value: float, told: str) -> None:
    """The whole part is never cut."""
    assert quantities.digits(value) == told


def test_bytes_are_told_in_both_units() -> None:
    """GB is 1e9 bytes, GiB is 2^30."""
    assert quantities.gigabytes(17_070_817_280) == "17.1\N{NO-BREAK SPACE}GB"
    assert quantities.gibibytes(17_070_817_280) == "15.9\N{NO-BREAK SPACE}GiB"


@pytest.mark.parametrize(
    ("value", "told"),
    [(3.2866, "3.29 s"), (0.355, "355 ms"), (0.00002, "20.0 µs"), (0, "0 µs"), (74.12, "74.1 s")],
)
def test_durations_have_the_unit_that_suits_them(value: float, told: str) -> None:
    """From microseconds to seconds."""
    assert quantities.seconds(value).replace("\N{NO-BREAK SPACE}", " ") == told


@pytest.mark.parametrize(
    ("value", "told"),
    [(48, "48"), (99_999, "99,999"), (669_790_012, "670 M"), (7.06e10, "70.6 G"), (1e21, "1,000 E")],
)
def test_counts_are_in_full_or_with_a_letter(value: float, told: str) -> None:
    """Five digits are still read at a glance."""
    assert quantities.count(value).replace("\N{NO-BREAK SPACE}", " ") == told


def test_a_long_list_of_equal_counts_is_drawn_together() -> None:
    """A short one is told in full."""
    assert quantities.runs((12, 13, 13, 10)) == "12, 13, 13, 10"
    assert quantities.runs((2,) * 27 + (3, 2)) == "2 (×27), 3, 2"
