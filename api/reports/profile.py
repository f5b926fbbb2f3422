"""What does a profile say? Time and memory of layers over the micro-batch size, and how near the roof is."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from api.reports.axes import Axis, logarithmic, sizes
from api.reports.plots import BOTTOM, COLOURS, LEFT, RIGHT, TOP, Plot
from api.reports.quantities import percent, si
from profiles import library
from profiles.device import Accelerator
from profiles.errors import DocumentError
from profiles.model import Layer
from profiles.timings import Profile, TimingPoint, TypeTimings
from tuner.estimate import layer_time_parts

DRAWN = 6
"""Types of layers in a picture: those that take most of an iteration."""
TYPES_ON_A_PAGE = 40


@dataclass(frozen=True)
class Kind:
    """The layers of one type, and what was timed of them."""

    layer: Layer
    count: int
    timings: TypeTimings
    colour: str | None
    """In the pictures; None where it is not drawn."""
    share: float
    """Of forward and backward of the whole model, at the largest micro-batch."""

    @property
    def name(self) -> str:
        """Its type."""
        return self.layer.type


@dataclass(frozen=True)
class Sight:
    """How fast one layer computes at one micro-batch size, beside what the device allows."""

    intensity: float
    """FLOPs for each byte that is moved."""
    flops_per_s: float
    roof: float
    """FLOP/s that the data sheet allows at this intensity."""


def profile_page(profile: Profile, *, first: int = 0) -> dict[str, Any]:
    """What `profile.html` shows; the table begins with the `first` type."""
    kinds = _kinds(profile)
    sheet = find_sheet(profile.timings.accelerator)
    drawn = [kind for kind in kinds if kind.colour]
    sights = {kind.name: _sights(kind, profile, sheet) for kind in kinds} if sheet else {}
    return {
        "profile": profile,
        "kinds": kinds,
        "drawn": drawn,
        "shown": kinds[first : first + TYPES_ON_A_PAGE],
        "first": first,
        "on_a_page": TYPES_ON_A_PAGE,
        "sheet": sheet,
        "facts": _facts(profile),
        "times": _times(drawn),
        "memory": _memory(drawn),
        "roofline": _roofline([(kind, sights[kind.name]) for kind in drawn], profile, sheet)
        if sheet
        else None,
        "sights": sights,
        "most_spread": max(
            (point.spread for kind in kinds for point in kind.timings.points if point.spread), default=None
        ),
    }


def find_sheet(accelerator: str) -> Accelerator | None:
    """The data sheet of that name; None where there is none."""
    try:
        return library.load_accelerator(accelerator)
    except DocumentError:
        return None


def kept_bytes(layer: Layer, point: TimingPoint) -> int:
    """What the layer keeps for its backward: as measured, else as described."""
    measured = point.activation_bytes
    return layer.activation_bytes.at(point.micro_batch_size) if measured is None else measured


def _kinds(profile: Profile) -> list[Kind]:
    """All types, those that take longest first."""
    counts = Counter(layer.type for layer in profile.description.layers)
    layers = {layer.type: layer for layer in profile.description.layers}
    timed = {entry.type: entry for entry in profile.timings.types if entry.type in layers}
    last = {name: entry.points[-1] for name, entry in timed.items()}
    taken = {name: counts[name] * (point.forward_s + point.backward_s) for name, point in last.items()}
    total = sum(taken.values())
    ranked = sorted(taken, key=lambda name: (-taken[name], name))
    return [
        Kind(
            layer=layers[name],
            count=counts[name],
            timings=timed[name],
            colour=COLOURS[place] if place < DRAWN else None,
            share=taken[name] / total,
        )
        for place, name in enumerate(ranked)
    ]


def _facts(profile: Profile) -> list[tuple[str, str]]:
    timings = profile.timings
    facts = [
        ("Accelerator", timings.accelerator),
        ("Sequence", f"{timings.sequence_length:,} tokens"),
        ("Precision", timings.precision),
        ("Attention", timings.attention),
        ("Software", timings.software),
    ]
    if timings.optimizer:
        facts.append(("Optimizer steps", timings.optimizer))
    if timings.largest_micro_batch_size:
        facts.append(("Largest micro-batch that ran", f"{timings.largest_micro_batch_size:,}"))
    return facts


def _over_sizes(kinds: list[Kind]) -> Axis:
    known = [point.micro_batch_size for kind in kinds for point in kind.timings.points]
    return sizes("micro-batch size B", known, start=LEFT, end=RIGHT)


def _times(kinds: list[Kind]) -> Plot:
    points = [point for kind in kinds for point in kind.timings.points]
    spans = [point.forward_s for point in points] + [point.backward_s for point in points]
    y = logarithmic("time of a layer", spans, start=BOTTOM, end=TOP, write=lambda tick: si(tick, "s"))
    plot = Plot("Forward and backward of each type of layer over the micro-batch size", _over_sizes(kinds), y)
    for kind in kinds:
        for field in ("forward_s", "backward_s"):
            line = [(p.micro_batch_size, getattr(p, field)) for p in kind.timings.points]
            plot.line(line, colour=str(kind.colour), dashed=field == "backward_s")
            for point in kind.timings.points:
                value = getattr(point, field)
                told = f", spread {percent(point.spread)}" if point.spread is not None else ""
                words = f"{kind.name}, B={point.micro_batch_size}: {field[:-2]} {si(value, 's')}{told}"
                plot.dot((point.micro_batch_size, value), colour=str(kind.colour), words=words)
    return plot


def _memory(kinds: list[Kind]) -> Plot | None:
    lines = [
        (kind, [(point.micro_batch_size, kept_bytes(kind.layer, point)) for point in kind.timings.points])
        for kind in kinds
    ]
    held = [(kind, [(size, kept) for size, kept in line if kept > 0]) for kind, line in lines]
    known = [kept for _, line in held for _, kept in line]
    if not known:
        return None
    y = logarithmic("kept for the backward", known, start=BOTTOM, end=TOP, write=lambda tick: si(tick, "B"))
    plot = Plot("Memory that each type of layer keeps over the micro-batch size", _over_sizes(kinds), y)
    for kind, line in held:
        plot.line(line, colour=str(kind.colour))
        for size, kept in line:
            words = f"{kind.name}, B={size}: keeps {si(kept, 'B')}"
            plot.dot((size, kept), colour=str(kind.colour), words=words)
    return plot


def _sights(kind: Kind, profile: Profile, sheet: Accelerator) -> list[Sight]:
    """The forward of the layer at each of its sizes; nothing where it computes no products."""
    layer, precision = kind.layer, profile.timings.precision
    if layer.forward_flops == 0 or precision not in sheet.peak_flops:
        return []
    batches = np.array([point.micro_batch_size for point in kind.timings.points])
    bandwidth, peak = sheet.memory_bandwidth_bytes_per_s, sheet.peak_flops[precision]
    traffic_s = layer_time_parts(layer, sheet, precision, batches).traffic_s[0]
    moved = traffic_s * bandwidth * sheet.efficiency.bandwidth_share
    intensities = (layer.forward_flops * batches / moved).tolist()
    return [
        Sight(
            intensity=intensity,
            flops_per_s=layer.forward_flops * point.micro_batch_size / point.forward_s,
            roof=min(peak, bandwidth * intensity),
        )
        for point, intensity in zip(kind.timings.points, intensities, strict=True)
    ]


def _roofline(kinds: list[tuple[Kind, list[Sight]]], profile: Profile, sheet: Accelerator) -> Plot | None:
    found = [(kind, sights) for kind, sights in kinds if sights]
    if not found:
        return None
    peak, bandwidth = sheet.peak_flops[profile.timings.precision], sheet.memory_bandwidth_bytes_per_s
    ridge = peak / bandwidth
    seen = [sight for _, sights in found for sight in sights]
    across = [*(sight.intensity for sight in seen), ridge / 3, ridge * 3]
    x = logarithmic("FLOPs for each byte moved", across, start=LEFT, end=RIGHT, write="{:,.4g}".format)
    reached = [*(sight.flops_per_s for sight in seen), peak]
    y = logarithmic("FLOP/s", reached, start=BOTTOM, end=TOP, write=lambda tick: si(tick, ""))
    plot = Plot(f"Roofline of {sheet.name}: what each type of layer reaches", x, y)
    foot = max(y.low / bandwidth, x.low)
    plot.line([(foot, foot * bandwidth), (ridge, peak), (x.high, peak)], colour="soft")
    for kind, sights in found:
        plot.line([(sight.intensity, sight.flops_per_s) for sight in sights], colour=str(kind.colour))
        for sight, point in zip(sights, kind.timings.points, strict=True):
            words = (
                f"{kind.name}, B={point.micro_batch_size}, forward: {si(sight.flops_per_s, 'FLOP/s')} at "
                f"{sight.intensity:,.3g} FLOP/B, {percent(sight.flops_per_s / sight.roof)} of the roof"
            )
            plot.dot((sight.intensity, sight.flops_per_s), colour=str(kind.colour), words=words)
    return plot
