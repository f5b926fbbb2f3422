"""What is known of a cluster? Its nodes, its links with what was measured, and what its software adds."""

from dataclasses import dataclass
from math import log2
from typing import Any

from api.reports.axes import logarithmic
from api.reports.plots import BOTTOM, COLOURS, LEFT, RIGHT, TOP, Plot
from api.reports.profile import find_sheet
from api.reports.quantities import digits, percent, seconds, si
from profiles.cluster import ClusterProfile, Link, LinkFit, Software, formula_factors

_SAMPLES = (1e6, 100e6, 1e9)
"""Messages whose time is told, in bytes."""
_GROUP = 8
"""Devices of the all-reduce whose time is told."""


@dataclass(frozen=True)
class Way:
    """One kind of link."""

    title: str
    link: Link
    all_reduce: str
    """How the software does it."""
    plot: Plot | None
    """What was measured of it, where it was."""

    @property
    def examples(self) -> list[tuple[str, str, str]]:
        """A size, the time of a message of that size, and of an all-reduce of it over eight devices."""
        p2p, collective = self.link.p2p, self.link.collective
        steps = 2 * log2(_GROUP)
        share = log2(_GROUP) if self.all_reduce == "recursive_doubling" else 2 * (_GROUP - 1) / _GROUP
        return [
            (
                si(size, "B"),
                seconds(p2p.latency_s + size / p2p.bandwidth_bytes_per_s),
                seconds(steps * collective.latency_s + share * size / collective.bandwidth_bytes_per_s),
            )
            for size in _SAMPLES
        ]


def cluster_page(cluster: ClusterProfile) -> dict[str, Any]:
    """What `cluster.html` shows."""
    links = {"Inside a node": cluster.node.link, "Between nodes": cluster.link}
    how = cluster.software.all_reduce
    return {
        "cluster": cluster,
        "sheet": find_sheet(cluster.node.accelerator),
        "ways": [Way(title, link, how, _fits(link, title.lower())) for title, link in links.items() if link],
        "software": _software(cluster.software),
        "group": _GROUP,
        "colours": COLOURS,
    }


def _fits(link: Link, where: str) -> Plot | None:
    """Measured times over message sizes, each with the line that was fitted through them."""
    fits = link.fits or ()
    points = [point for fit in fits for point in fit.points]
    if not points:
        return None
    x = logarithmic(
        "size of the message",
        [float(point.message_bytes) for point in points],
        start=LEFT,
        end=RIGHT,
        write=lambda tick: si(tick, "B"),
    )
    y = logarithmic(
        "time",
        [point.seconds for point in points] + [value for fit in fits for _, value in _line(fit)],
        start=BOTTOM,
        end=TOP,
        write=lambda tick: si(tick, "s"),
    )
    plot = Plot(f"Time of messages {where} over their size: measured, and as fitted", x, y)
    for fit, colour in zip(fits, COLOURS, strict=False):
        for point in fit.points:
            words = (
                f"{fit.operation}, {fit.processes} processes, {si(point.message_bytes, 'B')}: "
                f"{seconds(point.seconds)}, spread {percent(point.spread)}"
            )
            plot.dot((point.message_bytes, point.seconds), colour=colour, words=words)
        plot.line(_line(fit), colour=colour, dashed=True)
    return plot


def _line(fit: LinkFit) -> list[tuple[float, float]]:
    """As the fit has it."""
    steps, share = formula_factors(fit.operation, fit.processes)
    latency_s, byte_s = steps * fit.transfer.latency_s, share / fit.transfer.bandwidth_bytes_per_s
    return [(p.message_bytes, max(1e-9, latency_s + p.message_bytes * byte_s)) for p in fit.points]


def _software(software: Software) -> list[tuple[str, str]]:
    """What is not as it would be without, in words."""
    told = [
        ("Framework's memory", f"{si(software.framework_bytes, 'B')} on each device"),
        ("Layer times", f"{digits(software.compute_factor)} × as profiled"),
        (
            "Collectives of one rank",
            "side by side" if software.collectives == "side_by_side" else "one after another",
        ),
        ("All-reduce", software.all_reduce.replace("_", " ")),
    ]
    optional = {
        "traffic_factor": ("Memory traffic", "× the data sheet's time"),
        "message_factor": ("Bytes of messages", "× the link's time"),
        "collective_factor": ("Bytes of collectives", "× the link's time"),
        "stopped_collective_factor": ("Collectives that ranks stop for", "more for each doubling"),
    }
    for field, (label, words) in optional.items():
        value = getattr(software, field)
        if value is not None:
            told.append((label, f"{digits(value)} {words}"))
    lasting = {
        "launch_floor_s": "Least time of a block's backward",
        "iteration_overhead_s": "Every iteration",
        "operation_overhead_s": "Every forward and backward",
        "message_latency_s": "Every message, added",
        "ring_step_s": "Every step of a ring, added",
    }
    told += [
        (label, seconds(value)) for field, label in lasting.items() if (value := getattr(software, field))
    ]
    told += [
        (f"Activations of {family}", f"{digits(factor)} × as counted")
        for family, factor in software.activation_factors.items()
    ]
    return told
