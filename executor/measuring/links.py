"""How fast are the links of this machine, or of several? Messages and collectives between real processes.

The processes are started here, or this one joins those that torchrun has started, on one node or several.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any, Literal

import torch
import torch.distributed as dist

from executor.errors import ConfigurationError
from executor.launchers.launch import Launch
from executor.launchers.rank_process import Rank
from executor.launchers.watchdog import Limits
from executor.measuring.launched import results_of
from executor.measuring.link_rounds import PingPong, all_gather, all_reduce, reduce_scatter, timed, values_of
from executor.measuring.overlaps import (
    Overlapped,
    Where,
    measure_collectives,
    measure_messages,
    read_overlap,
)
from executor.trials.load import LoadMonitor

BODY = "executor.measuring.links:run"
DEFAULT_SIZES = (4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216)
COLLECTIVES = {"all_reduce": all_reduce, "all_gather": all_gather, "reduce_scatter": reduce_scatter}

Operation = Literal["p2p", "all_reduce", "all_gather", "reduce_scatter"]


@dataclass(frozen=True)
class LinkPlan:
    """What to measure."""

    sizes_bytes: tuple[int, ...] = DEFAULT_SIZES
    processes: int = 2
    """Started on this machine, where torchrun has not started any."""
    budget_s: float = 0.5
    """Of one operation at one size."""
    timeout_s: float = 300.0


@dataclass(frozen=True)
class Timing:
    """What one operation took at one size."""

    where: Where
    operation: Operation
    processes: int
    message_bytes: int
    seconds: tuple[float, ...]
    span_s: tuple[float, float]
    """Start and end on the monotonic clock of the first process."""


@dataclass(frozen=True)
class MeasuredLinks:
    """All timings, and whether anything disturbed them."""

    timings: tuple[Timing, ...]
    nodes: int
    processes: int
    undisturbed: float | None
    """Share of the timings; None where the load was not watched."""
    overlaps: tuple[Overlapped, ...] = ()


def is_joined() -> bool:
    """Whether torchrun, or what does as it does, has started this process beside others."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def measure_links(plan: LinkPlan) -> MeasuredLinks | None:
    """Measure; None in processes other than the first of those that torchrun has started.

    Raises ConfigurationError for fewer than two processes, TrialError if one of them failed.
    """
    if is_joined():
        return _join(plan)
    if plan.processes < 2:
        raise ConfigurationError(
            f"a link has two ends: {plan.processes} process is too few, start at least 2"
        )
    launch = Launch(
        BODY,
        asdict(plan),
        plan.processes,
        limits=Limits(timeout_s=plan.timeout_s, silence_s=plan.timeout_s),
    )
    with LoadMonitor() as monitor:
        results = results_of(launch, wanted="the links could not be measured")
    found = _read(results[0], plan.processes)
    spans = [timing.span_s for timing in found.timings] + [overlap.span_s for overlap in found.overlaps]
    kept = monitor.judge(spans).kept
    return replace(found, undisturbed=sum(kept) / len(kept))


def run(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """The body of a launched process."""
    plan = LinkPlan(**{**spec, "sizes_bytes": tuple(spec["sizes_bytes"])})
    rank.progress.doing("measuring links")
    dist.init_process_group("gloo", timeout=timedelta(seconds=plan.timeout_s))
    return _measure(plan)


def _join(plan: LinkPlan) -> MeasuredLinks | None:
    if int(os.environ["WORLD_SIZE"]) < 2:
        raise ConfigurationError("a link has two ends: WORLD_SIZE is 1, start at least 2 processes")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=plan.timeout_s))
    try:
        found = _measure(plan)
        first, processes = dist.get_rank() == 0, dist.get_world_size()
        dist.barrier()
    finally:
        dist.destroy_process_group()
    return _read(found, processes) if first else None


def _read(found: Mapping[str, Any], processes: int) -> MeasuredLinks:
    timings = tuple(
        Timing(**{**each, "seconds": tuple(each["seconds"]), "span_s": tuple(each["span_s"])})
        for each in found["timings"]
    )
    overlaps = tuple(map(read_overlap, found["overlaps"]))
    return MeasuredLinks(timings, found["nodes"], processes, None, overlaps)


def _measure(plan: LinkPlan) -> dict[str, Any]:
    """The same calls on every process; the first one has been in all of them and knows all times."""
    nodes = _nodes()
    members: dict[Where, list[int]] = {
        "inside": next(iter(nodes.values())),
        "between": [ranks[0] for ranks in nodes.values()],
    }
    timings: list[Timing] = []
    overlaps: list[Overlapped] = []
    for where, ranks in members.items():
        if len(ranks) < 2:
            continue
        pair, upward, everyone = (dist.new_group(members) for members in (ranks[:2], ranks[:2], ranks))
        if dist.get_rank() in ranks[:2]:
            timings += _messages(plan, where, group=pair)
            overlaps += measure_messages(
                plan.sizes_bytes, where, group=pair, upward=upward, budget_s=plan.budget_s
            )
        if dist.get_rank() in ranks:
            timings += _collectives(plan, where, group=everyone)
            overlaps += measure_collectives(plan.sizes_bytes, where, group=everyone, budget_s=plan.budget_s)
        dist.barrier()
    told: dict[str, Sequence[Any]] = {"timings": timings, "overlaps": overlaps}
    return {name: [asdict(one) for one in found] for name, found in told.items()} | {"nodes": len(nodes)}


def _nodes() -> dict[str, list[int]]:
    """The ranks on every node, in order; torchrun's number of the node tells nodes of one name apart."""
    own = f"{platform.node()} {os.environ.get('GROUP_RANK', '0')}"
    names = [""] * dist.get_world_size()
    dist.all_gather_object(names, own)
    nodes: dict[str, list[int]] = {}
    for rank, name in enumerate(names):
        nodes.setdefault(name, []).append(rank)
    return nodes


def _messages(plan: LinkPlan, where: Where, *, group: Any) -> list[Timing]:
    ends = PingPong(plan.sizes_bytes, group=group)
    return [
        _timing(plan, where, "p2p", size=size, rounds=ends.rounds(number), group=group)
        for number, size in enumerate(plan.sizes_bytes)
    ]


def _collectives(plan: LinkPlan, where: Where, *, group: Any) -> list[Timing]:
    members = dist.get_world_size(group)
    names: Sequence[Operation] = ("all_reduce", "all_gather", "reduce_scatter")
    return [
        _timing(
            plan,
            where,
            name,
            size=size,
            rounds=COLLECTIVES[name](values_of(size, members), group=group),
            group=group,
        )
        for name in names
        for size in plan.sizes_bytes
    ]


def _timing(
    plan: LinkPlan, where: Where, operation: Operation, *, size: int, rounds: Any, group: Any
) -> Timing:
    start_s = time.monotonic()
    seconds = timed(rounds, group=group, budget_s=plan.budget_s)
    span = start_s, time.monotonic()
    return Timing(where, operation, dist.get_world_size(group), size, tuple(seconds), span)
