"""Which cluster do measured links make? One of this machine, or of the nodes that took part."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
import torch

from executor.measuring.environment import accelerator_of, describe_environment
from executor.measuring.links import MeasuredLinks, Timing
from executor.measuring.measured_overlap import overlap_of, run_side_by_side
from profiles import library
from profiles.cluster import (
    ClusterProfile,
    FitPoint,
    Link,
    LinkFit,
    Node,
    Software,
    Transfer,
    formula_factors,
)
from tuner.link_fit import fit_line

_BASE = "local-cpu"
"""Whose assumptions on software are taken over: links are measured, memory of the framework is not."""
QUIET_SHARE = 0.75


def cluster_of(
    measured: MeasuredLinks, *, name: str, accelerator: str | None = None, devices: int | None = None
) -> ClusterProfile:
    """A document for `--cluster`; `devices` of each node are its processors unless given.

    Raises LinkFitError where times do not grow with bytes.
    """
    own = "inside" if any(timing.where == "inside" for timing in measured.timings) else "between"
    inside = _link(measured, own)
    between = _link(measured, "between") if measured.nodes > 1 else _same(inside)
    devices = devices or len(os.sched_getaffinity(0))
    return ClusterProfile(
        name=name,
        description=f"{measured.nodes} node{'s' * (measured.nodes != 1)} of which the links were measured by "
        "`chimera links`.",
        node=Node(
            accelerator=accelerator or accelerator_of(torch.device("cpu")),
            devices=devices,
            link=inside if own == "inside" and devices > 1 else None,
        ),
        link=between,
        max_devices=devices * measured.nodes,
        software=with_collectives(library.load_cluster(_BASE).software, measured),
    )


def with_collectives(software: Software, measured: MeasuredLinks) -> Software:
    """The software with what was seen of two collectives at once, inside a node where there is one."""
    inside = [each for each in measured.overlaps if each.where == "inside"]
    together = run_side_by_side(inside or measured.overlaps)
    if together is None:
        return software
    return software.model_copy(update={"collectives": "side_by_side" if together else "one_after_another"})


def notes_of(measured: MeasuredLinks) -> list[str]:
    """What to know before the numbers are used."""
    share = measured.undisturbed
    if share is None:
        return ["the load of the machines was not watched: make sure that nothing else ran"]
    if share >= QUIET_SHARE:
        return []
    told = f"the machine was not quiet: {share:.0%} of the timings ran undisturbed"
    return [f"{told}; measure again when nothing else runs"]


def _link(measured: MeasuredLinks, where: str) -> Link:
    timings = [timing for timing in measured.timings if timing.where == where]
    fits = tuple(_fit(list(of)) for _, of in groupby(timings, key=lambda timing: timing.operation))
    by_operation = {fit.operation: fit for fit in fits}
    overlaps = [each for each in measured.overlaps if each.where == where]
    return Link(
        p2p=by_operation["p2p"].transfer,
        collective=by_operation["all_reduce"].transfer,
        provenance="measured",
        source=_source(measured, where, fits),
        fits=fits,
        overlap=overlap_of(overlaps, by_operation) if overlaps else None,
    )


def _fit(timings: list[Timing]) -> LinkFit:
    """A line through the medians; a collective's is divided by its formula's factors."""
    first = timings[0]
    steps, volume = formula_factors(first.operation, first.processes)
    points = tuple(_point(timing) for timing in sorted(timings, key=lambda timing: timing.message_bytes))
    line = fit_line([point.message_bytes for point in points], [point.seconds for point in points])
    return LinkFit(
        operation=first.operation,
        processes=first.processes,
        transfer=Transfer(
            latency_s=line.latency_s / steps, bandwidth_bytes_per_s=line.bandwidth_bytes_per_s * volume
        ),
        residual=line.residual,
        largest_residual=line.largest_residual,
        latency_is_bound=line.latency_is_bound,
        points=points,
    )


def _point(timing: Timing) -> FitPoint:
    low, median, high = np.percentile(timing.seconds, [25, 50, 75]).tolist()
    return FitPoint(
        message_bytes=timing.message_bytes,
        seconds=median,
        spread=(high - low) / median,
        repeats=len(timing.seconds),
    )


def _source(measured: MeasuredLinks, where: str, fits: Iterable[LinkFit]) -> str:
    environment = describe_environment(torch.device("cpu"), threads=1)
    told = "; ".join(
        f"{fit.operation} over {fit.processes} processes, residual {fit.residual:.1%}, at most "
        f"{fit.largest_residual:.1%}"
        for fit in fits
    )
    place = "inside a node" if where == "inside" else f"between {measured.nodes} nodes"
    text = (
        f"Measured {place} over gloo with torch {torch.__version__} on {environment.device}: {told}. Message "
        "times are one way, waking up the receiver included."
    )
    return " ".join([text, *notes_of(measured)])[:2_000]


def _same(inside: Link) -> Link:
    """There is one node, and no way out of it."""
    values: dict[str, Any] = {
        "source": "There is one node; this is the link inside it. " + inside.source[:1_900],
        "fits": None,
    }
    return inside.model_copy(update=values)
