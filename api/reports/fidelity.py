"""What does the page of a score show? Predicted over measured, and every row behind it."""

from math import floor, log10
from typing import Any

from api.rendering import render
from api.reports import inline
from tuner.score import Score, ScoredRow

SIDE = 560
"""Pixels of the picture's square."""
_EDGE = 56
_TICKS = (1, 2, 5)
_COLOURS = ("compute", "p2p", "all_reduce", "weights", "transient", "input", "gradients", "warn")
"""Names of colours in the style sheet."""


def render_fidelity(score: Score) -> str:
    """The page as one file that needs no network and runs no script."""
    rows = (*score.rows, *score.asynchronous.rows)
    schedules = sorted({str(row.configuration["schedule"]) for row in rows})
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(schedules)}
    pictures = [
        _picture(quantity, [row for row in rows if row.quantity == quantity], colours=colours)
        for quantity in ("samples_per_s", "iteration_s")
        if any(row.quantity == quantity for row in rows)
    ]
    return render(
        "fidelity.html",
        standalone=True,
        policy=inline.policy(),
        scripts=(),
        score=score,
        colours=colours,
        pictures=pictures,
        side=SIDE,
        edge=_EDGE,
        rows=sorted(rows, key=lambda row: -abs(row.error)),
    )


def _picture(quantity: str, rows: list[ScoredRow], *, colours: dict[str, str]) -> dict[str, Any]:
    """Points on logarithmic axes that both span the same values."""
    values = [value for row in rows for value in (row.predicted, row.measured)]
    low, high = log10(min(values)) - 0.08, log10(max(values)) + 0.08

    def place(value: float) -> float:
        return round(_EDGE + (log10(value) - low) / (high - low) * (SIDE - 2 * _EDGE), 1)

    ticks = [
        step * 10.0**power
        for power in range(floor(low), floor(high) + 1)
        for step in _TICKS
        if low <= log10(step * 10.0**power) <= high
    ]
    return {
        "unit": "samples/s" if quantity == "samples_per_s" else "s an iteration",
        "ticks": [{"at": place(tick), "text": f"{tick:g}"} for tick in ticks],
        "points": [
            {
                "x": place(row.measured),
                "y": SIDE - place(row.predicted),
                "low": SIDE - max(_EDGE, place(row.low)) if row.low else None,
                "high": SIDE - min(SIDE - _EDGE, place(row.high)) if row.high else None,
                "colour": colours[str(row.configuration["schedule"])],
                "words": f"{described(row)}: predicted {row.predicted:.4g}, measured {row.measured:.4g} "
                f"({row.error:+.1%})",
            }
            for row in rows
        ],
    }


def described(row: ScoredRow) -> str:
    """The model and configuration of a row."""
    ran = row.configuration
    return (
        f"{row.model}, {ran['schedule']} W={ran['width']} D={ran['depth']} B={ran['micro_batch_size']}, "
        f"recompute {ran['recompute']}, {ran['scaling']}"
    )
