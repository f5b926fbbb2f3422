"""How are links measured for the service? Between processes on this machine."""

from __future__ import annotations

from executor.measuring.links import DEFAULT_SIZES, LinkPlan, measure_links
from executor.measuring.measured_cluster import cluster_of
from executor.worker.answer import Answer, LostError, Tell
from executor.worker.surroundings import Surroundings
from profiles.cluster import Link
from tuner.assignments import MeasuredLink, ProfileLinks, ProfileLinksResult
from tuner.link_fit import LinkFitError, check_sizes

_LONGEST_S = 0.5
"""To repeat one operation at one size."""


def profile_links(asked: ProfileLinks, here: Surroundings, tell: Tell) -> Answer:
    """Measure the link inside this node; raises LostError where the times make no line."""
    sizes = tuple(sorted(set(asked.message_bytes or DEFAULT_SIZES)))
    check_sizes(sizes)
    tell({"doing": f"messages and collectives between {asked.devices} processes"})
    plan = LinkPlan(
        sizes,
        processes=asked.devices,
        budget_s=min(_LONGEST_S, here.budget_s),
        timeout_s=here.limit_s,
    )
    measured = measure_links(plan)
    if measured is None:
        raise LostError("another process answers for these links: was the worker started by torchrun?", {})
    try:
        cluster = cluster_of(measured, name="measured", accelerator="cpu", devices=asked.devices)
    except LinkFitError as error:
        raise LostError(f"the times make no link: {error}", {"undisturbed": measured.undisturbed}) from None
    return Answer(ProfileLinksResult(links=(_measured(cluster.node.link or cluster.link),)))


def _measured(link: Link) -> MeasuredLink:
    fits = link.fits or ()
    return MeasuredLink(
        scope="node",
        link=link,
        residual=max(fit.largest_residual for fit in fits),
        points=tuple(
            (point.message_bytes, point.seconds)
            for fit in fits
            if fit.operation == "p2p"
            for point in fit.points
        ),
    )
