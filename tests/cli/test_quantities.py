"""Are numbers written so that people read them right?"""

import pytest

from cli.quantities import count, gigabytes, percent, seconds, table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (1.5, "1.500 s"),
        (0.0125, "12.500 ms"),
        (2e-6, "2.000 µs"),
        (3e-9, "3.00e-09 s"),
        (-2, "-2.000 s"),
    ],
)
def test_seconds_come_in_the_unit_that_suits(value: float, text: str) -> None:
    """From nanoseconds to hours no digit is lost to a unit too large."""
    assert seconds(value) == text


def test_bytes_are_decimal_gigabytes() -> None:
    """GB is 1e9, and a small part is not 0.00."""
    assert gigabytes(17_071_734_784) == "17.07 GB"
    assert gigabytes(4_000_000) == "0.004 GB"


def test_counts_and_shares_are_short() -> None:
    """Three or four digits say enough."""
    assert (count(669_790_012), count(1.5e12), count(12)) == ("669.8 M", "1.5 T", "12")
    assert percent(0.0314) == "3.1 %"


def test_a_table_lines_up_numbers_to_the_right() -> None:
    """Columns of numbers end together, words start together."""
    lines = table(("name", "W"), [("a", "8"), ("longer", "128")], indent=0)
    assert lines == ["name      W", "a         8", "longer  128"]
