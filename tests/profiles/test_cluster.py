"""Are the shipped clusters what their names promise?"""

import pytest

from profiles.cluster import ClusterProfile
from profiles.library import load_cluster, names

CLUSTERS = [load_cluster(name) for name in names("clusters")]


def test_piz_daint_is_fitted_and_says_so() -> None:
    """Its links and factors come from the published runs, not from data sheets."""
    cluster = load_cluster("piz-daint")
    assert (cluster.node.devices, cluster.node.link, cluster.max_devices) == (1, None, None)
    assert {cluster.link.provenance, cluster.software.provenance} == {"fitted"}
    assert set(cluster.software.activation_factors) == {"bert", "gpt2"}
    assert cluster.software.compute_factor > 1


@pytest.mark.parametrize("cluster", CLUSTERS, ids=names("clusters"))
def test_a_link_inside_a_node_is_no_slower_than_one_between_nodes(cluster: ClusterProfile) -> None:
    """Otherwise nobody would build the node."""
    inside, between = cluster.node.link, cluster.link
    if inside is None:
        assert cluster.node.devices == 1
        return
    assert inside.p2p.bandwidth_bytes_per_s >= between.p2p.bandwidth_bytes_per_s
    assert inside.collective.bandwidth_bytes_per_s >= between.collective.bandwidth_bytes_per_s
    assert inside.p2p.latency_s <= between.p2p.latency_s


@pytest.mark.parametrize(("name", "devices"), [("v100-32", 32), ("a100-8", 8)])
def test_a_cluster_of_fixed_size_says_its_size(name: str, devices: int) -> None:
    """Plans for more devices than there are can be refused."""
    assert load_cluster(name).max_devices == devices


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100", "dgx-b200", "hgx-h200", "generic"])
def test_a_kind_of_machine_may_grow(name: str) -> None:
    """A design of nodes has no size of its own."""
    assert load_cluster(name).max_devices is None
