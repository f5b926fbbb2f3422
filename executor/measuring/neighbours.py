"""How long do layers take while the other ranks of a machine compute as well?

Ranks that share a machine share its memory bandwidth, its caches and its clock. So as many processes as there
will be ranks measure the same layer at the same time, each as `executor.measuring.profiling` does alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch.distributed as dist

from executor.launchers.launch import Launch
from executor.launchers.rank_process import Rank
from executor.launchers.watchdog import Limits
from executor.measuring.launched import results_of
from executor.measuring.overheard import tell
from executor.measuring.profiling import Plan, take_profile
from executor.models.loading import loaded_for
from executor.models.sources import describe_model, open_model
from profiles.document import Attention, Precision
from profiles.timings import Profile, TimingPoint, TypeTimings

BODY = "executor.measuring.neighbours:run"

_AVERAGED = ("forward_s", "backward_s", "input_backward_s", "weight_backward_s", "recomputed_backward_s")


@dataclass(frozen=True)
class Crowd:
    """What is profiled in how many processes."""

    model: Any
    """A preset's name or {"config": ...}."""
    processes: int
    sequence_length: int | None = None
    precision: Precision | None = None
    attention: Attention | None = None
    timeout_s: float = 1_800.0
    told: str | None = None
    """Where the first process writes how far it has come, for an `Overheard`."""


def take_crowded_profile(crowd: Crowd, plan: Plan) -> Profile:
    """The mean of what all processes find; raises TrialError if one of them fails."""
    launch = Launch(
        BODY,
        {"crowd": asdict(crowd), "plan": asdict(plan)},
        crowd.processes,
        limits=Limits(timeout_s=crowd.timeout_s, silence_s=crowd.timeout_s),
        threads=plan.threads,
        preload=(BODY.partition(":")[0], *loaded_for(crowd.model)),
    )
    results = results_of(launch, wanted=f"{crowd.processes} processes could not be profiled")
    return mean_profile([Profile.from_value(result["profile"]) for result in results])


def run(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """The body of one process; all begin every layer together."""
    crowd, asked = Crowd(**spec["crowd"]), spec["plan"]
    plan = Plan(**{**asked, "micro_batch_sizes": tuple(asked["micro_batch_sizes"])})
    rank.progress.doing("connecting")
    dist.init_process_group("gloo", timeout=timedelta(seconds=crowd.timeout_s))
    description = describe_model(
        crowd.model,
        sequence_length=crowd.sequence_length,
        precision=crowd.precision,
        attention=crowd.attention,
    )
    model = open_model(
        crowd.model,
        sequence_length=description.sequence_length,
        precision=description.precision,
        attention=description.attention,
        seed=plan.seed,
    )

    def together(done: int, total: int, what: str) -> None:
        rank.progress.doing(f"measuring {what}, {done} of {total}")
        if rank.rank == 0:
            tell(crowd.told, done, total=total, what=what)
        dist.barrier()

    profile = take_profile(model, plan, name=description.name, description=description, progress=together)
    return {"profile": profile.model_dump(mode="json", exclude_none=True)}


def mean_profile(profiles: Sequence[Profile]) -> Profile:
    """The first profile, with the means of all times: none of the processes is the right one."""
    timings = [profile.timings for profile in profiles]
    types = tuple(_mean_type(same) for same in zip(*(each.types for each in timings), strict=True))
    first = timings[0]
    changes: dict[str, Any] = {"types": types}
    if len(profiles) > 1:
        note = f"taken by {len(profiles)} processes at the same time, as ranks run: means of what they found"
        changes["notes"] = (note, *first.notes)[:100]
    return profiles[0].model_copy(update={"timings": first.model_copy(update=changes)})


def _mean_type(same: Sequence[TypeTimings]) -> TypeTimings:
    points = tuple(_mean_point(points) for points in zip(*(each.points for each in same), strict=True))
    steps = [each.update_s for each in same if each.update_s is not None]
    update_s = float(np.mean(steps)) if len(steps) == len(same) else None
    return same[0].model_copy(update={"points": points, "update_s": update_s})


def _mean_point(same: Sequence[TimingPoint]) -> TimingPoint:
    means = {}
    for field in _AVERAGED:
        values = [getattr(point, field) for point in same]
        if all(value is not None for value in values):
            means[field] = float(np.mean(values))
    return same[0].model_copy(update=means)
