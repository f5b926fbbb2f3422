"""What do studies gain that take turns on the same devices? The figures, and both ways on one axis."""

from typing import Any

from api.reports.axes import linear, positions
from api.reports.plots import BOTTOM, COLOURS, LEFT, RIGHT, TOP, Plot
from api.reports.quantities import si
from tuner.crossover import Crossover
from tuner.crossover_lanes import TURNS, Lanes


def crossover_page(told: Crossover, alone: Lanes, shared: Lanes) -> dict[str, Any]:
    """What `crossover.html` shows of jobs that can share, one after the other and in turns."""
    end_s = max(alone.end_s, shared.end_s)
    depth = told.jobs[0].configuration.depth
    return {
        "told": told,
        "turns": TURNS,
        "colours": COLOURS,
        "alone": _picture("One after the other", alone, depth=depth, end_s=end_s),
        "shared": _picture("In turns", shared, depth=depth, end_s=end_s),
        "alone_s": alone.end_s,
        "shared_s": shared.end_s,
    }


def _picture(title: str, lanes: Lanes, *, depth: int, end_s: float) -> Plot:
    x = linear("time", [end_s], start=LEFT, end=RIGHT, write=lambda tick: si(tick, "s"))
    y = positions("rank of the pipeline", depth, start=TOP, end=BOTTOM)
    plot = Plot(f"{title}: what each rank computes over time", x, y)
    for job in sorted({stretch.job for stretch in lanes.computing}):
        colour = COLOURS[job]
        computing = [(each.rank, each.start_s, each.end_s) for each in lanes.computing if each.job == job]
        gradients = [(each.rank, each.start_s, each.end_s) for each in lanes.gradients if each.job == job]
        plot.rows(computing, room=(0.1, 0.7), colour=colour)
        plot.rows(gradients, room=(0.76, 0.92), colour=colour)
    return plot
