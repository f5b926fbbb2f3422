"""Can times and bytes that were measured be true? What no device does is told, and not corrected."""

from collections.abc import Iterator
from itertools import pairwise

from profiles.calibration import CalibrationSet
from profiles.cluster import ClusterProfile
from profiles.model import Layer
from profiles.timings import TimingPoint, TypeTimings

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

BYTES_APART = 4.0
"""Between kept bytes as measured and as described: kernels differ by less, units by more."""
WORKING_APART = 100.0
"""The same of transient bytes, of which kernels decide."""
PARTS_LEAST, PARTS_MOST = 0.5, 5.0
"""Times the whole backward that both parts of a split one take: small layers are launched twice."""
SLOWEST_STEP, FASTEST_STEP = 1e6, 1e13
"""Parameters that an optimizer steps in a second."""
SHORTEST_STEP_S = 0.01
"""A step below which little more than launches is timed."""
WIDEST_SPREAD = 0.5
"""Relative spread beyond which a median says little."""

FURTHEST = 64.0
"""Between an iteration and its prediction: units are 1,000 or so many tokens apart, models less."""


SLOWEST_LINK = 1e6
FASTEST_LINK = 1e14
"""Bytes a second: Gbit/s and GB/s under that name are below, bytes of a rack above."""
LONGEST_LATENCY_S = 1.0
LONGEST_S = 3_600.0
"""What a launch, a message or an iteration cannot take beyond its work."""


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


def calibration_doubts(chosen: CalibrationSet) -> Iterator[str]:
    """Sentences about coefficients that no software explains."""
    for each in chosen.coefficients:
        if each.name == "compute_factor" and not 1 / FURTHEST < each.value < FURTHEST:
            yield (
                f"the calibration has layers take {each.value:.3g} times what was measured or estimated of "
                "them: was it fitted on times in seconds, and is it as it was fitted?"
            )
        if each.name.endswith("_s") and each.value > LONGEST_S:
            yield f"the calibration has a {each.name} of {each.value:,.4g} s: is it as it was fitted?"


def doubts(layer: Layer, timings: TypeTimings, *, peak_flops: float) -> Iterator[str]:
    """Sentences about what falls while micro-batches grow, or is far from what the device can do.

    Of each kind of doubt the first point that raises it is told.
    """
    yield from _falls(timings)
    for doubt in (_times_doubt, _bytes_doubt, _working_doubt, _parts_doubt, _spread_doubt):
        for point in timings.points:
            if told := doubt(layer, point, peak_flops):
                yield f"{timings.type} at B={point.micro_batch_size} {told}"
                break
    yield from _step_doubt(layer, timings)


def _falls(timings: TypeTimings) -> Iterator[str]:
    for before, after in pairwise(timings.points):
        sizes = f"from B={before.micro_batch_size} to B={after.micro_batch_size}"
        if after.forward_s + after.backward_s < FALL * (before.forward_s + before.backward_s):
            yield (
                f"times of {timings.type} fall {sizes}"
                ": the profile may be disturbed; between its sizes it is followed as it is"
            )
        kept, grown = before.activation_bytes, after.activation_bytes
        if kept is not None and grown is not None and grown < FALL * kept:
            yield (
                f"bytes kept by {timings.type} fall {sizes}, {kept:,} to {grown:,}"
                ": between its sizes the profile is followed as it is"
            )


def _times_doubt(layer: Layer, point: TimingPoint, peak_flops: float) -> str | None:
    size, taken_s = point.micro_batch_size, point.forward_s + point.backward_s
    forward_s, backward_s = (
        flops * size / peak_flops for flops in (layer.forward_flops, layer.backward_flops)
    )
    work_s = forward_s + backward_s
    slowest = SLOWEST if work_s else SLOWEST_MOVING
    if work_s > FASTEST * taken_s or taken_s > max(work_s, SHORTEST_WORK_S) / slowest:
        said, gives = f"{taken_s:.3g} s", f"{work_s:.3g} s"
    elif forward_s > FASTEST * point.forward_s or backward_s > FASTEST * point.backward_s:
        said = f"{point.forward_s:.3g} and {point.backward_s:.3g} s forward and backward"
        gives = f"{forward_s:.3g} and {backward_s:.3g} s"
    else:
        return None
    return (
        f"is said to take {said}, where the accelerator's peak gives {gives}: "
        "are the times in seconds, and of this accelerator?"
    )


def _bytes_doubt(layer: Layer, point: TimingPoint, _: float) -> str | None:
    described = layer.activation_bytes.at(point.micro_batch_size)
    return _apart("keep", measured=point.activation_bytes, described=described, most=BYTES_APART)


def _working_doubt(layer: Layer, point: TimingPoint, _: float) -> str | None:
    described = layer.transient_bytes.at(point.micro_batch_size) if layer.kind == "block" else 0
    return _apart("need for a while", measured=point.transient_bytes, described=described, most=WORKING_APART)


def _apart(does: str, *, measured: int | None, described: int, most: float) -> str | None:
    if measured is None or not described or described / most < measured < described * most:
        return None
    return (
        f"is said to {does} {measured:,} bytes, where its description has "
        f"{described:,}: is it in bytes, and of this model? Memory is planned with what is said"
    )


def _parts_doubt(_: Layer, point: TimingPoint, __: float) -> str | None:
    if point.input_backward_s is None or point.weight_backward_s is None:
        return None
    parts_s = point.input_backward_s + point.weight_backward_s
    if PARTS_LEAST < parts_s / point.backward_s < PARTS_MOST:
        return None
    return (
        f"is said to take {parts_s:.3g} s for both parts of its backward and "
        f"{point.backward_s:.3g} s for the whole: schedules that split it are predicted with the parts"
    )


def _spread_doubt(_: Layer, point: TimingPoint, __: float) -> str | None:
    if point.spread is None or point.spread <= WIDEST_SPREAD:
        return None
    return f"spread by {point.spread:,.0%} while it was timed: profile it again while nothing else runs"


def _step_doubt(layer: Layer, timings: TypeTimings) -> Iterator[str]:
    step_s, parameters = timings.update_s, layer.parameters
    if step_s is None or not parameters:
        return
    slow = step_s > max(SHORTEST_STEP_S, parameters / SLOWEST_STEP)
    if slow or step_s < parameters / FASTEST_STEP:
        yield (
            f"an optimizer step of {timings.type} is said to take {step_s:.3g} s for {parameters:,} "
            "parameters: is it in seconds?"
        )
