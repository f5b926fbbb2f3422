"""How is a table of layer times read? CSV with a header, one row for each time that a layer was run.

Columns: `layer`, `forward_s` and `backward_s` (or `_ms`, `_us`), and as wanted `micro_batch_size` and
`activation_bytes`.
"""

import csv
from collections.abc import Iterator
from math import isfinite

from tuner.imports.errors import ImportedError
from tuner.imports.layer_times import LayerTime

MOST_ROWS = 1_000_000
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def read_csv(text: str, *, name: str, micro_batch_size: int | None = None) -> Iterator[LayerTime]:
    """The rows; `micro_batch_size` is theirs where there is no such column. Raises ImportedError."""
    rows = _cells(text, name)
    header = [cell.lower().replace(" ", "_") for cell in next(rows, [])]
    if len(header) == 1 and (sign := next((sign for sign in ";\t" if sign in header[0]), None)):
        raise ImportedError(
            f"{name} has {'tabs' if sign != ';' else 'semicolons'} between its columns: write commas, and a "
            "point in numbers"
        )
    if twice := next((column for column in header if column and header.count(column) > 1), None):
        raise ImportedError(f"{name} has two columns {twice[:60]!r}: leave one out")
    forward, backward = _time_column(header, "forward", name), _time_column(header, "backward", name)
    if "layer" not in header:
        raise ImportedError(f"{name} has no column `layer`; its header is {', '.join(header)[:200]!r}")
    if "micro_batch_size" not in header and micro_batch_size is None:
        raise ImportedError(f"{name} has no column micro_batch_size: add one, or give --micro-batch-sizes")
    for number, cells in enumerate(rows, 2):
        if number > MOST_ROWS:
            raise ImportedError(f"{name} has more than {MOST_ROWS:,} rows")
        if not any(cells):
            continue
        if len(cells) != len(header):
            raise ImportedError(f"{name}, line {number}: {len(cells)} cells under {len(header)} columns")
        row = dict(zip(header, cells, strict=True))
        where = f"{name}, line {number}"
        size = row.get("micro_batch_size")
        yield LayerTime(
            layer=row["layer"],
            micro_batch_size=micro_batch_size or 1 if size is None else _count(size, where),
            forward_s=_number(row[forward[0]], where) * forward[1],
            backward_s=_number(row[backward[0]], where) * backward[1],
            activation_bytes=_count(row["activation_bytes"], where) if row.get("activation_bytes") else None,
        )


def _cells(text: str, name: str) -> Iterator[list[str]]:
    try:
        for cells in csv.reader(text.removeprefix("\ufeff").splitlines()):
            yield [cell.strip() for cell in cells]
    except csv.Error as error:
        raise ImportedError(f"{name} is no CSV: {error}") from None


def _time_column(header: list[str], what: str, name: str) -> tuple[str, float]:
    """The column of a time, and what its unit is in seconds."""
    found = [(f"{what}_{unit}", factor) for unit, factor in _UNITS.items() if f"{what}_{unit}" in header]
    if len(found) > 1:
        raise ImportedError(
            f"{name} has {' and '.join(column for column, _ in found)}, which say one time: leave one out"
        )
    if found:
        return found[0]
    raise ImportedError(f"{name} has no column {what}_s, {what}_ms or {what}_us: times need their unit")


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or not 0 < value < 1e9:
        raise ImportedError(f"{where}: {text[:40]!r} is not a time above 0")
    return value


def _count(text: str, where: str) -> int:
    if not text.isdecimal() or not 0 < int(text[:19]) < 10**18 or len(text) > 18:
        raise ImportedError(f"{where}: {text[:40]!r} is not a whole number of at least 1")
    return int(text)
