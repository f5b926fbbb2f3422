"""Does a plan answer for hardware that the request assumes, and does it say so?"""

from typing import Any

import pytest

from profiles import library
from tests.tuner.factories import make_request
from tuner.errors import RequestError
from tuner.inputs import gather
from tuner.plan import Plan
from tuner.planning import answer
from tuner.request import read_request

BERT = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}
HUGE = {"model": "llama-3-70b", "cluster": "dgx-h100", "devices": 4, "mini_batch_size": 64}


def make(base: dict[str, Any], **options: Any) -> Plan:
    """The plan under these assumptions."""
    return answer(read_request(base | options), library)


def test_more_memory_makes_it_fit() -> None:
    """Capacity, margin and reasons are those of the memory that is assumed, and the plan notes it."""
    assert make(HUGE).chosen is None
    plan = make(HUGE, device_memory_bytes=400_000_000_000, margin=0.1)
    assert plan.chosen
    assert plan.cluster.memory_bytes == 400_000_000_000
    assert {rank.reserve_bytes for rank in plan.chosen.memory} == {40_000_000_000}
    assert any("400.00 GB because the request says so" in note for note in plan.provenance.notes)
    assert plan.provenance.hashes["accelerator"] != make(HUGE).provenance.hashes["accelerator"]


def test_faster_links_shorten_messages_and_collectives_alone() -> None:
    """Every bandwidth is multiplied, no latency and no layer changes."""
    pinned: dict[str, Any] = {"schedules": "dapple", "width": 8, "depth": 4, "micro_batch_size": 4}
    slow, fast = (make(BERT, link_bandwidth_factor=factor, **pinned) for factor in (1.0, 4.0))
    assert slow.chosen
    assert fast.chosen
    before, after = slow.chosen.predicted.breakdown, fast.chosen.predicted.breakdown
    assert after.compute_s == before.compute_s
    assert after.p2p_s < before.p2p_s
    assert after.all_reduce_s < before.all_reduce_s
    asked = make_request(cluster="dgx-h100", link_bandwidth_factor=4.0)
    assumed, known = gather(asked, library).cluster, library.load_cluster("dgx-h100")
    for one, other in ((assumed.link, known.link), (assumed.node.link, known.node.link)):
        assert one
        assert other
        for kind in ("p2p", "collective"):
            there, here = getattr(one, kind), getattr(other, kind)
            assert there.bandwidth_bytes_per_s == 4 * here.bandwidth_bytes_per_s
            assert there.latency_s == here.latency_s


@pytest.mark.parametrize(
    "options",
    [
        {"device_memory_bytes": 0},
        {"device_memory_bytes": 10**16},
        {"device_memory_bytes": 1.5e9},
        {"link_bandwidth_factor": 0},
        {"link_bandwidth_factor": float("nan")},
        {"link_bandwidth_factor": "fast"},
    ],
    ids=str,
)
def test_hardware_that_cannot_be_is_refused(options: dict[str, Any]) -> None:
    """The error names the option."""
    with pytest.raises(RequestError, match=next(iter(options))):
        read_request(BERT | options)
