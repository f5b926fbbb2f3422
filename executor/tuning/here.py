"""What do the layers of a model and the links take on this machine? Measured in seconds, before a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executor.measuring.links import LinkPlan, MeasuredLinks, measure_links
from executor.measuring.measured_cluster import cluster_of, notes_of, with_collectives
from executor.measuring.neighbours import Crowd, take_crowded_profile
from executor.measuring.overheard import Overheard
from executor.measuring.profiling import Plan, Progress, take_profile
from executor.measuring.runtime_overheads import OverheadPlan, measure_overheads, with_overheads
from executor.measuring.runtime_overheads import notes_of as notes_of_overheads
from executor.models.factories import is_factory
from executor.models.sources import describe_model, open_model
from profiles.cluster import ClusterProfile
from profiles.timings import Profile
from tuner.link_fit import LinkFitError

LINK_SIZES = (4_096, 65_536, 262_144, 1_048_576, 4_194_304)
LARGEST_PROFILED = 64
"""Micro-batch sizes beyond are extrapolated."""
_ROUNDS = 2
"""Of short iterations, which tell what runs take beside layers and links."""


def sizes_to_profile(largest: int, *others: int | None) -> tuple[int, ...]:
    """Powers of two up to the largest micro-batch there can be, and whatever else is asked for."""
    powers = {2**power for power in range(LARGEST_PROFILED.bit_length()) if 2**power <= largest}
    return tuple(sorted(powers | {size for size in others if size}))


def profile_here(model: Any, plan: Plan, *, processes: int, progress: Progress, **shape: Any) -> Profile:
    """Times of the layers: on a CPU as so many ranks that share the machine see them.

    shape: sequence_length, precision and attention, as the model has them by default unless given. Raises
    ConfigurationError, ModelError or TrialError where that cannot be measured.
    """
    factory = isinstance(model, str) and is_factory(model)
    if plan.device == "cpu" and not factory:
        with Overheard(progress) as overheard:
            crowd = Crowd(model, processes, **shape, told=overheard.path)
            return take_crowded_profile(crowd, plan)
    if factory:
        opened = open_model(model, seed=plan.seed)
        return take_profile(opened, plan, name=model[-200:], progress=progress)
    description = describe_model(model, **shape)
    decided = {name: getattr(description, name) for name in ("sequence_length", "precision", "attention")}
    opened = open_model(model, **decided, seed=plan.seed)
    return take_profile(opened, plan, name=description.name, description=description, progress=progress)


def links_here(cluster: ClusterProfile, *, budget_s: float) -> tuple[ClusterProfile, Sequence[str]]:
    """The cluster with the links of this machine in place of assumed ones, and what to know of them.

    What runs take beside their layers is measured as well. Where the times of messages make
    no line the cluster is left as it is. Raises TrialError where a process fails.
    """
    measured: MeasuredLinks | None = measure_links(LinkPlan(LINK_SIZES, budget_s=budget_s))
    if measured is None:
        return cluster, ["torchrun started this process: the links are as they were assumed"]
    try:
        found = cluster_of(measured, name=cluster.name, accelerator=cluster.node.accelerator)
    except LinkFitError as error:
        return cluster, [f"the links are as they were assumed: {error}"]
    node = cluster.node.model_copy(update={"link": found.link})
    software = with_collectives(cluster.software, measured)
    changes = {"node": node, "link": found.link, "software": software}
    linked = cluster.model_copy(update=changes)
    overheads = measure_overheads(linked, OverheadPlan(_ROUNDS, budget_s=budget_s))
    return with_overheads(linked, overheads), [*notes_of(measured), *notes_of_overheads(overheads)]
