"""Which hardware does a request assume instead of what the documents say? More memory, or faster links."""

from profiles.cluster import ClusterProfile, Link, Transfer
from profiles.device import Accelerator
from tuner.request import PlanRequest


def assume_memory(accelerator: Accelerator, request: PlanRequest) -> Accelerator:
    """The data sheet with the memory that the request gives each device."""
    if request.device_memory_bytes is None:
        return accelerator
    return accelerator.model_copy(update={"memory_bytes": request.device_memory_bytes})


def assume_links(cluster: ClusterProfile, request: PlanRequest) -> ClusterProfile:
    """The cluster with the bandwidth of all its links multiplied as the request says."""
    factor = request.link_bandwidth_factor
    if factor == 1:
        return cluster
    inside = cluster.node.link
    node = cluster.node.model_copy(update={"link": None if inside is None else _link(inside, factor)})
    return cluster.model_copy(update={"node": node, "link": _link(cluster.link, factor)})


def assumed(request: PlanRequest) -> list[str]:
    """What a plan notes of it."""
    notes = []
    if request.device_memory_bytes is not None:
        told = f"{request.device_memory_bytes / 1e9:,.2f} GB"
        notes.append(f"the memory of each device is {told} because the request says so, not its data sheet")
    if request.link_bandwidth_factor != 1:
        told = f"{request.link_bandwidth_factor:g}"
        notes.append(f"the bandwidth of all links is multiplied by {told} because the request says so")
    return notes


def _link(link: Link, factor: float) -> Link:
    return link.model_copy(
        update={"p2p": _transfer(link.p2p, factor), "collective": _transfer(link.collective, factor)}
    )


def _transfer(transfer: Transfer, factor: float) -> Transfer:
    return transfer.model_copy(update={"bandwidth_bytes_per_s": factor * transfer.bandwidth_bytes_per_s})
