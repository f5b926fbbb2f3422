"""What does the page of a score show? Predicted over measured, and every row behind it."""

from collections.abc import Sequence
from typing import Any

from api.reports import inline
from api.reports.scatter import Point, colours_of, scatter
from api.web.rendering import render
from tuner.score import Score, ScoredRow

_UNITS = {"samples_per_s": "samples/s", "iteration_s": "s an iteration"}


def render_fidelity(score: Score) -> str:
    """The page as one file that needs no network and runs no script."""
    every = (*score.rows, *score.asynchronous.rows)
    colours = colours_of([str(row.configuration["schedule"]) for row in every])
    kinds = (("Schedules with a flush", score.rows), ("Without a flush, apart", score.asynchronous.rows))
    return render(
        "fidelity.html",
        standalone=True,
        policy=inline.policy(),
        scripts=(),
        score=score,
        parts=[_part(title, rows, colours) for title, rows in kinds if rows],
    )


def _part(title: str, rows: Sequence[ScoredRow], colours: dict[str, str]) -> dict[str, Any]:
    """A picture for each quantity that was measured, and the rows, furthest off first."""
    shown = {str(row.configuration["schedule"]) for row in rows}
    return {
        "title": title,
        "colours": {name: colour for name, colour in colours.items() if name in shown},
        "pictures": [
            scatter([_point(row, colours) for row in rows if row.quantity == quantity], unit=unit)
            for quantity, unit in _UNITS.items()
            if any(row.quantity == quantity for row in rows)
        ],
        "rows": sorted(rows, key=lambda row: -abs(row.error)),
    }


def _point(row: ScoredRow, colours: dict[str, str]) -> Point:
    return Point(
        predicted=row.predicted,
        measured=row.measured,
        colour=colours[str(row.configuration["schedule"])],
        words=f"{described(row)}: predicted {row.predicted:.4g}, measured {row.measured:.4g} "
        f"({row.error:+.1%})",
        low=row.low,
        high=row.high,
    )


def described(row: ScoredRow) -> str:
    """The model and configuration of a row."""
    ran = row.configuration
    return (
        f"{row.model}, {ran['schedule']} W={ran['width']} D={ran['depth']} B={ran['micro_batch_size']}, "
        f"recompute {ran['recompute']}, {ran['scaling']}"
    )
