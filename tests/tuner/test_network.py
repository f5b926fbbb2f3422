"""What do messages and collectives take inside a node, between nodes, and in either order of the ranks?"""

from math import log2
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles.cluster import ClusterProfile
from tests.tuner.factories import make_cluster
from tuner.network import Network

LAWS = settings(max_examples=60, deadline=None, derandomize=True)

INSIDE_S, BETWEEN_S = 1.0, 100.0
RankOrder = Literal["pipe_major", "data_major"]


def latencies(node_devices: int) -> ClusterProfile:
    """A hop takes 1 s inside a node and 100 s between nodes, whatever its size; collectives cost by bytes.

    A collective moves a byte in 1 s between nodes and in 0.1 s inside a node.
    """
    return make_cluster(
        node_devices=node_devices,
        p2p=(BETWEEN_S, 1e30),
        collective=(0.0, 1.0),
        inside_p2p=(INSIDE_S, 1e30),
        inside_collective=(0.0, 10.0),
    )


def hop_s(cluster: ClusterProfile, width: int, depth: int, *, order: RankOrder = "pipe_major") -> float:
    """Mean time of a hop of a message of no bytes."""
    return float(Network(cluster, width, depth, order).hop_s(np.zeros(1))[0])


def all_reduce_s(
    cluster: ClusterProfile, width: int, depth: int, *, copies: int = 1, order: RankOrder = "pipe_major"
) -> float:
    """Time of the collective of one byte."""
    return float(Network(cluster, width, depth, order).all_reduce_s(np.ones(1), copies)[0])


def worst_pipeline_hops(width: int, depth: int, node: int, *, order: RankOrder) -> int:
    """Hops between nodes of the worst pipeline, by numbering every device."""

    def node_of(group: int, stage: int) -> int:
        return (group * depth + stage if order == "pipe_major" else stage * width + group) // node

    return max(
        sum(node_of(group, stage) != node_of(group, stage + 1) for stage in range(depth - 1))
        for group in range(width)
    )


def test_a_hop_is_latency_plus_bytes_over_bandwidth() -> None:
    """α + β·L."""
    network = Network(make_cluster(p2p=(0.5, 4.0)), 1, 2, "pipe_major")
    assert network.hop_s(np.array([0.0, 8.0])).tolist() == [0.5, 2.5]


def test_a_single_stage_sends_nothing() -> None:
    """No hop, no time."""
    assert hop_s(latencies(8), 8, 1) == 0.0


@pytest.mark.parametrize(
    ("width", "depth", "order", "between"),
    [
        (2, 4, "pipe_major", 0),
        (2, 4, "data_major", 0),
        (8, 8, "pipe_major", 0),
        (4, 16, "pipe_major", 1),
        (2, 32, "pipe_major", 3),
        (16, 4, "data_major", 3),
        (8, 4, "data_major", 3),
        (4, 4, "data_major", 1),
        (2, 8, "data_major", 1),
    ],
)
def test_hops_that_leave_a_node_count_with_their_share(
    width: int, depth: int, order: RankOrder, between: int
) -> None:
    """Nodes of eight: the mean over the D − 1 hops of a pipeline."""
    expected = (between * BETWEEN_S + (depth - 1 - between) * INSIDE_S) / (depth - 1)
    assert hop_s(latencies(8), width, depth, order=order) == pytest.approx(expected)


@LAWS
@given(
    width=st.integers(1, 20),
    depth=st.integers(2, 20),
    node=st.integers(1, 12),
    order=st.sampled_from(["pipe_major", "data_major"]),
)
def test_the_hops_between_nodes_are_those_of_the_worst_pipeline(
    width: int, depth: int, node: int, order: RankOrder
) -> None:
    """Against numbering every device; pipe_major may count one more where few pipelines start."""
    mean = hop_s(latencies(node), width, depth, order=order)
    between = (mean - INSIDE_S) * (depth - 1) / (BETWEEN_S - INSIDE_S)
    counted = worst_pipeline_hops(width, depth, node, order=order)
    if order == "data_major" or width == 1 or width >= node:
        assert between == pytest.approx(counted, abs=1e-6)
    else:
        assert counted - 1e-6 <= between <= counted + 1 + 1e-6


@pytest.mark.parametrize(("width", "copies"), [(1, 2), (4, 1), (4, 2), (3, 4)])
def test_with_a_device_a_node_a_collective_is_the_papers(width: int, copies: int) -> None:
    """2·log2(r)·α + 2·(r − 1)/r·β·L over r = copies·W replicas."""
    cluster = make_cluster(collective=(0.25, 8.0))
    replicas = copies * width
    expected = 2 * log2(replicas) * 0.25 + 2 * (replicas - 1) / replicas * 24.0 / 8.0
    network = Network(cluster, width, 4, "pipe_major")
    assert float(network.all_reduce_s(np.array([24.0]), copies)[0]) == pytest.approx(expected)


@pytest.mark.parametrize("stopped", [False, True])
def test_software_that_moves_all_bytes_in_every_step_takes_log2_r_of_them(stopped: bool) -> None:
    """Recursive doubling: 2·log2(r)·α + log2(r)·β·L; each step is longer with log2(r) where ranks stop."""
    cluster = make_cluster(
        collective=(0.25, 8.0), all_reduce="recursive_doubling", stopped_collective_factor=0.5
    )
    network = Network(cluster, 16, 4, "pipe_major")
    expected = 2 * 5 * 0.25 + 5 * 24.0 / 8.0 * (1 + 5 * 0.5 if stopped else 1)
    assert float(network.all_reduce_s(np.array([24.0]), 2, stopped=stopped)[0]) == pytest.approx(expected)


def test_one_replica_synchronises_nothing() -> None:
    """No time at r = 1, whatever the latency."""
    network = Network(make_cluster(collective=(5.0, 1.0)), 1, 4, "pipe_major")
    assert network.all_reduce_s(np.array([1.0, 1e12]), 1).tolist() == [0.0, 0.0]


def test_within_one_node_the_inner_link_carries_the_collective() -> None:
    """W·D devices of one node: 2·(r − 1)/r bytes at the inner rate."""
    assert all_reduce_s(latencies(8), 8, 1) == pytest.approx(2 * 7 / 8 / 10)
    assert all_reduce_s(latencies(8), 2, 4) == pytest.approx(2 * 1 / 2 / 10)


def test_replicas_side_by_side_in_a_node_need_no_other_link() -> None:
    """Under data_major a width that divides the node keeps each stage's replicas in one, however deep."""
    assert all_reduce_s(latencies(8), 4, 32, order="data_major") == pytest.approx(2 * 3 / 4 / 10)
    assert all_reduce_s(latencies(8), 4, 32, copies=2, order="data_major") == pytest.approx(2 * 7 / 8 / 4)
    assert all_reduce_s(latencies(8), 3, 32, order="data_major") == pytest.approx(2 * 2 / 3 / 3)


def test_a_node_without_a_link_of_its_own_uses_the_one_between_nodes() -> None:
    """Nothing is free because it is not described."""
    cluster = make_cluster(node_devices=8, p2p=(BETWEEN_S, 1e30), collective=(0.0, 1.0))
    assert hop_s(cluster, 2, 4) == pytest.approx(BETWEEN_S)
    assert all_reduce_s(cluster, 2, 4) == pytest.approx(1.0)


def test_members_in_a_node_share_the_traffic_between_nodes() -> None:
    """Replicas side by side (data_major) use the network cards of all their devices."""
    ratio = 2 * 15 / 16
    assert all_reduce_s(latencies(8), 16, 8, order="data_major") == pytest.approx(ratio / 8)
    assert all_reduce_s(latencies(8), 16, 8, order="pipe_major") == pytest.approx(ratio)


def test_the_traffic_inside_a_node_counts_where_it_takes_longer() -> None:
    """A slow inner link bounds the collective."""
    cluster = make_cluster(
        node_devices=8, collective=(0.0, 1e9), inside_p2p=(0.0, 1.0), inside_collective=(0.0, 1.0)
    )
    assert all_reduce_s(cluster, 16, 1, order="data_major") == pytest.approx(2 * 7 / 8)


def test_two_copies_in_a_node_are_two_members() -> None:
    """Chimera of D=8 in a node of eight: both copies of a stage are in it, and share the traffic outwards."""
    assert all_reduce_s(latencies(8), 4, 8, copies=2) == pytest.approx(2 * 7 / 8 / 2)


@LAWS
@given(
    width=st.integers(1, 64), depth=st.integers(1, 32), node=st.integers(1, 16),
    copies=st.sampled_from([1, 2, 4]), slower=st.floats(1, 100),
    order=st.sampled_from(["pipe_major", "data_major"]),
)  # fmt: skip
def test_slower_links_never_take_less(
    width: int, depth: int, node: int, copies: int, slower: float, order: RankOrder
) -> None:
    """Hops and collectives, with every rate divided and every latency multiplied."""
    message = np.array([1.0, 1e9])
    fast, slow = (
        Network(
            make_cluster(
                node_devices=node,
                p2p=(1e-5 * by, 1e9 / by),
                collective=(1e-5 * by, 1e9 / by),
                inside_p2p=(1e-6 * by, 1e10 / by),
                inside_collective=(1e-6 * by, 1e10 / by),
            ),
            width,
            depth,
            order,
        )
        for by in (1.0, slower)
    )
    assert (slow.hop_s(message) >= fast.hop_s(message)).all()
    assert (slow.all_reduce_s(message, copies) >= fast.all_reduce_s(message, copies)).all()
