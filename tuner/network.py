"""How long do messages and collectives take, inside a node and between nodes?"""

from dataclasses import dataclass, replace
from math import gcd, log2
from typing import Literal

import numpy as np

from profiles.cluster import ClusterProfile, Link, Overlap, Transfer
from tuner.schedules.scheme import Floats, Integers


@dataclass(frozen=True)
class Network:
    """The links of a cluster as the ranks of one layout see them.

    pipe_major numbers the devices pipeline by pipeline, so the stages of one pipeline are neighbours;
    data_major numbers them stage by stage, so the replicas of one stage are.
    """

    cluster: ClusterProfile
    width: int
    depth: int
    rank_order: Literal["pipe_major", "data_major"]

    def hop_s(self, message_bytes: Floats) -> Floats:
        """Mean time α + β·L of a message to the next stage; hops that leave a node count with their share."""
        hops = self.depth - 1
        if not hops:
            return np.zeros_like(message_bytes)
        between = self._hops_between_nodes()
        time = between * self._transfer_s(self.cluster.link.p2p, message_bytes)
        time = time + (hops - between) * self._transfer_s(self._inside.p2p, message_bytes)
        return np.asarray(time / hops, dtype=np.float64)

    def links(self) -> tuple[Floats, Floats]:
        """Latency and seconds per byte from every rank to every other of the worst placed pipeline [w, w]."""
        groups = range(min(self.width, self._node_devices))
        nodes = max(
            (self._nodes(group) for group in groups), key=lambda nodes: int((np.diff(nodes) != 0).sum())
        )
        apart = nodes[:, None] != nodes[None, :]
        far, near = self.cluster.link.p2p, self._inside.p2p
        latency = np.where(apart, far.latency_s, near.latency_s) + self._message_latency_s
        per_byte = np.where(apart, 1 / far.bandwidth_bytes_per_s, 1 / near.bandwidth_bytes_per_s)
        return latency, per_byte * self._message_factor

    def _nodes(self, group: int) -> Integers:
        """The node of every rank of one pipeline [w]."""
        ranks = np.arange(self.depth)
        pipe_major = self.rank_order == "pipe_major"
        device = group * self.depth + ranks if pipe_major else ranks * self.width + group
        return device // self._node_devices

    def all_reduce_s(self, message_bytes: Floats, copies: int, *, stopped: bool = False) -> Floats:
        """Time 2·log2(r)·α + 2·(r−1)/r·β·L over r = copies·W replicas (section 3.3 of the paper), or with
        log2(r) instead of 2·(r−1)/r where the software moves all bytes in every step.

        Ranks that have `stopped` for it also see the software's steps of the ring, 2·(r−1) of them.

        With m members in each node, their network cards share the traffic between nodes, and the traffic
        inside a node takes its own time if that is longer. A reduce-scatter with an all-gather takes as long.
        """
        replicas = copies * self.width
        if replicas == 1:
            return np.zeros_like(message_bytes)
        steps = 2 * (replicas - 1) * (self.cluster.software.ring_step_s or 0.0) if stopped else 0.0
        volume_bytes = message_bytes * self._collective_factor(replicas, stopped=stopped)
        time = self._reduced_s(volume_bytes, replicas, copies=copies)
        return np.asarray(time + steps, dtype=np.float64)

    def all_gather_s(self, message_bytes: Floats, copies: int, *, stopped: bool = False) -> Floats:
        """Time log2(r)·α + (r−1)·β·L until each of r = copies·W replicas has the L bytes of all others.

        As `all_reduce_s`, with half its steps.
        """
        replicas = copies * self.width
        if replicas == 1:
            return np.zeros_like(message_bytes)
        steps = (replicas - 1) * (self.cluster.software.ring_step_s or 0.0) if stopped else 0.0
        message_bytes = message_bytes * self._collective_factor(replicas, stopped=stopped)
        members = min(replicas, self._members_in_a_node(copies))
        inside = _gather_s(self._inside.collective, message_bytes, replicas)
        if self._stays_in_a_node(replicas, members):
            return np.asarray(inside + steps)
        time = _gather_s(self.cluster.link.collective, message_bytes, replicas, share=members)
        return np.asarray((np.maximum(time, inside) if members > 1 else time) + steps)

    def _reduced_s(self, message_bytes: Floats, replicas: int, *, copies: int) -> Floats:
        members = min(replicas, self._members_in_a_node(copies))
        inside = self._inside.collective
        if self._stays_in_a_node(replicas, members):
            return self._collective_s(inside, message_bytes, replicas)
        time = self._collective_s(self.cluster.link.collective, message_bytes, replicas, share=members)
        if members > 1:
            time = np.maximum(time, self._collective_s(inside, message_bytes, members))
        return time

    def _collective_s(
        self, link: Transfer, message_bytes: Floats, replicas: int, *, share: int = 1
    ) -> Floats:
        """2·(r−1)/r times the bytes in a ring, log2(r) times by recursive doubling (Thakur et al., 2005)."""
        doubling = self.cluster.software.all_reduce == "recursive_doubling"
        passes = log2(replicas) if doubling else 2 * (replicas - 1) / replicas
        moving_s = passes * message_bytes / share / link.bandwidth_bytes_per_s
        return np.asarray(2 * log2(replicas) * link.latency_s + moving_s, dtype=np.float64)

    def _stays_in_a_node(self, replicas: int, members: int) -> bool:
        """Whether all replicas of a stage share a node, of which `members` do in the fullest."""
        stage_in_node = members == replicas and self._node_devices % self.width == 0
        return stage_in_node or self.width * self.depth <= self._node_devices

    def _transfer_s(self, link: Transfer, message_bytes: Floats) -> Floats:
        """The link's time and the software's; as `links` has them apart."""
        per_byte = message_bytes * self._message_factor / link.bandwidth_bytes_per_s
        return np.asarray(link.latency_s + self._message_latency_s + per_byte, dtype=np.float64)

    @property
    def _message_latency_s(self) -> float:
        return self.cluster.software.message_latency_s or 0.0

    @property
    def _message_factor(self) -> float:
        factor = self.cluster.software.message_factor
        return 1.0 if factor is None else factor

    def _collective_factor(self, replicas: int, *, stopped: bool) -> float:
        """Where ranks stop, every doubling of those that wait for each other makes every step slower."""
        software = self.cluster.software
        factor = 1.0 if software.collective_factor is None else software.collective_factor
        return factor + (log2(replicas) * (software.stopped_collective_factor or 0.0) if stopped else 0.0)

    @property
    def overlap(self) -> Overlap | None:
        """What was measured of communication beside computation, on the slowest link in use."""
        inside = self.width * self.depth <= self._node_devices
        return self._inside.overlap if inside else self.cluster.link.overlap

    @property
    def beside_computation(self) -> "Network":
        """The links as ranks see them that compute meanwhile, where that was measured."""
        node = self.cluster.node
        inner = None if node.link is None else _overlapped(node.link)
        changes = {"node": node.model_copy(update={"link": inner}), "link": _overlapped(self.cluster.link)}
        return replace(self, cluster=self.cluster.model_copy(update=changes))

    @property
    def _inside(self) -> Link:
        """The link within a node; where none is given, that between nodes."""
        return self.cluster.node.link or self.cluster.link

    @property
    def _node_devices(self) -> int:
        return self.cluster.node.devices

    def _hops_between_nodes(self) -> int:
        """Hops of one pipeline that leave a node, in the worst placed pipeline."""
        node = self._node_devices
        if self.width * self.depth <= node:
            return 0
        if self.rank_order == "data_major":
            return min(self.depth - 1, (self.width * self.depth - 1) // node)
        latest_start = node - gcd(node, self.depth) if self.width > 1 else 0
        return (latest_start + self.depth - 1) // node

    def _members_in_a_node(self, copies: int) -> int:
        """Replicas of one stage that share a node."""
        if self.rank_order == "data_major":
            return max(1, min(self.width, self._node_devices))
        groups = self._node_devices // self.depth
        return groups * copies if groups else 1


def overlap_notes(cluster: ClusterProfile) -> list[str]:
    """What simulated times know of communication beside computation, in a sentence where it was measured."""
    overlap = cluster.link.overlap
    if overlap is None:
        return []
    note = (
        f"computation is taken to run {overlap.slow_down:.0%} slower while collectives run on its rank, and "
        f"{overlap.occupancy_s * 1e6:,.0f} µs longer for each message that it sends or receives, as measured"
    )
    return [note]


def _overlapped(link: Link) -> Link:
    overlap = link.overlap
    if overlap is None:
        return link
    return link.model_copy(update={"p2p": overlap.p2p, "collective": overlap.collective})


def _gather_s(link: Transfer, message_bytes: Floats, replicas: int, *, share: int = 1) -> Floats:
    volume = (replicas - 1) * message_bytes / share
    return np.asarray(log2(replicas) * link.latency_s + volume / link.bandwidth_bytes_per_s)
