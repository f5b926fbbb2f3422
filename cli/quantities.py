"""How are numbers and tables written for people?"""

from collections.abc import Iterable, Sequence

_SMALL = ((1.0, "s", 1), (1e-3, "ms", 1e3), (1e-6, "µs", 1e6))


def count(value: float) -> str:
    """A large count in three digits: 669.8 M."""
    for size, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:,.1f} {sign}"
    return f"{value:,.0f}"


def gigabytes(value: float) -> str:
    """Bytes in GB = 1e9, three places below 1 GB so that small parts do not vanish."""
    gb = value / 1e9
    return f"{gb:,.2f} GB" if abs(gb) >= 1 else f"{gb:.3f} GB"


def seconds(value: float) -> str:
    """A duration in the unit that suits it."""
    for smallest, unit, factor in _SMALL:
        if abs(value) >= smallest:
            return f"{value * factor:,.3f} {unit}"
    return "0 s" if value == 0 else f"{value:.2e} s"


def percent(share: float) -> str:
    """A share as a percentage."""
    return f"{share * 100:,.1f} %"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, indent: int = 2) -> list[str]:
    """Columns as wide as their content, numbers to the right; nothing is cut to fit a terminal."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    right = [all(_numeric(row[column]) for row in cells[1:]) for column in range(len(header))]
    return [
        " " * indent
        + "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    ]


def _numeric(cell: str) -> bool:
    return not cell or cell[0].isdigit() or cell[0] in "+-"
