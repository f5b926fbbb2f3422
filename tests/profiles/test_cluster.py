"""Are the shipped clusters what their names promise?"""

from typing import Any

import pytest

from profiles.cluster import ClusterProfile
from profiles.errors import MalformedDocumentError
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


OVERLAP: dict[str, Any] = {
    "slow_down": 0.4,
    "slow_down_spread": 0.05,
    "collective": {"latency_s": 0.001, "bandwidth_bytes_per_s": 5e8},
    "p2p": {"latency_s": 0.0003, "bandwidth_bytes_per_s": 1e9},
    "occupancy_s": 0.0001,
    "repeats": 9,
}
"""Of a link, beside computation."""


def with_overlap(**changes: Any) -> dict[str, Any]:
    """A cluster whose communication was measured beside computation."""
    value = load_cluster("local-cpu").model_dump(mode="json", exclude_none=True)
    value["link"] = value["link"] | {"overlap": OVERLAP | changes}
    return value


def test_what_was_measured_beside_computation_is_kept() -> None:
    """Written and read again it is the same; documents without it keep the fingerprint they had."""
    cluster = ClusterProfile.from_value(with_overlap())
    assert cluster.link.overlap is not None
    assert cluster.link.overlap.slow_down == 0.4
    assert ClusterProfile.from_json(cluster.to_json()) == cluster
    assert "overlap" not in load_cluster("local-cpu").to_json()


@pytest.mark.parametrize(
    "wrong",
    [
        {"slow_down": -0.1},
        {"slow_down": 1e9},
        {"slow_down": "0.4"},
        {"slow_down": None},
        {"slow_down_spread": -1.0},
        {"occupancy_s": -1e-6},
        {"occupancy_s": 1e10},
        {"repeats": 0},
        {"p2p": {"latency_s": 0.1, "bandwidth_bytes_per_s": 0.0}},
        {"slowdown": 0.4},
    ],
    ids=str,
)
def test_what_cannot_have_been_measured_is_refused(wrong: dict[str, Any]) -> None:
    """By the name of the field."""
    with pytest.raises(MalformedDocumentError, match=f"overlap.{next(iter(wrong))}"):
        ClusterProfile.from_value(with_overlap(**wrong))


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1e999"])
def test_a_slow_down_is_a_number(value: str) -> None:
    """As JSON would not have it, or beyond all numbers."""
    text = (
        ClusterProfile.from_value(with_overlap()).to_json().replace('"slow_down":0.4', f'"slow_down":{value}')
    )
    with pytest.raises(MalformedDocumentError):
        ClusterProfile.from_json(text)
