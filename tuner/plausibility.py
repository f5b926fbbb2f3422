"""Can times that were measured be true? What no device does is told, and not corrected."""

from collections.abc import Iterator
from itertools import pairwise

from profiles.cluster import ClusterProfile
from profiles.model import Layer
from profiles.timings import TypeTimings

FASTEST = 3.0
"""Times the data sheet's peak: faster than clocks and sheets explain."""
SLOWEST = 3e-4
"""Share of the peak below which no device computes: milliseconds or more read as seconds."""
SLOWEST_MOVING = 1e-7
"""The same where there is nothing to compute but bytes to move, of which the peak says little."""
SHORTEST_WORK_S = 1e-5
"""Work below which little more than a launch is timed."""
FALL = 0.9
"""A time at a larger micro-batch below this share of the one before is more than noise."""

FURTHEST = 100.0
"""Between an iteration and its prediction: units are 1,000 or so many tokens apart, models less."""


SLOWEST_LINK = 1e6
FASTEST_LINK = 1e14
"""Bytes a second: Gbit/s and GB/s under that name are below, bytes of a rack above."""
LONGEST_LATENCY_S = 1.0


def link_doubts(cluster: ClusterProfile) -> Iterator[str]:
    """Sentences about links that cannot be in bytes a second, or in seconds."""
    for place, link in (("inside a node", cluster.node.link), ("between nodes", cluster.link)):
        for use, transfer in () if link is None else (("p2p", link.p2p), ("collective", link.collective)):
            where = f"{use} {place} of {cluster.name}"
            if not SLOWEST_LINK < transfer.bandwidth_bytes_per_s < FASTEST_LINK:
                yield f"{where} moves {transfer.bandwidth_bytes_per_s:,.4g} bytes a second: is it in bytes?"
            if transfer.latency_s > LONGEST_LATENCY_S:
                yield f"{where} has a latency of {transfer.latency_s:,.4g} s: is it in seconds?"


def iteration_doubt(what: str, *, measured_s: float, predicted_s: float) -> str | None:
    """A sentence about an iteration that cannot be in the unit that it says; None where it may be."""
    if 1 / FURTHEST < measured_s / predicted_s < FURTHEST:
        return None
    return (
        f"{what} is said to take {measured_s:,.3g} s an iteration, where {predicted_s:,.3g} s are predicted: "
        "is it in seconds, or its rate in samples and not tokens a second?"
    )


def doubts(layer: Layer, timings: TypeTimings, *, peak_flops: float) -> Iterator[str]:
    """Sentences about times that fall while micro-batches grow, or are far from what the device can do."""
    for before, after in pairwise(timings.points):
        if after.forward_s + after.backward_s < FALL * (before.forward_s + before.backward_s):
            yield (
                f"times of {timings.type} fall from B={before.micro_batch_size} to B={after.micro_batch_size}"
                ": the profile may be disturbed; between its sizes it is followed as it is"
            )
    for point in timings.points:
        work_s = (layer.forward_flops + layer.backward_flops) * point.micro_batch_size / peak_flops
        taken_s = point.forward_s + point.backward_s
        slowest = SLOWEST if work_s else SLOWEST_MOVING
        if work_s > FASTEST * taken_s or taken_s > max(work_s, SHORTEST_WORK_S) / slowest:
            yield (
                f"{timings.type} at B={point.micro_batch_size} is said to take {taken_s:.3g} s, where the "
                f"accelerator's peak gives {work_s:.3g} s: are the times in seconds, and of this accelerator?"
            )
            return
