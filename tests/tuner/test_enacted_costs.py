"""What do the costs of a configuration know of communication beside computation?"""

from typing import Any, Literal

import numpy as np
import pytest

from profiles import library
from profiles.cluster import ClusterProfile, Overlap, Transfer
from tests.tuner.factories import inline, make_cluster, make_plan, make_request
from tuner.configuration import Configuration
from tuner.enacted_costs import message_ends
from tuner.enactment import expect
from tuner.operation_costs import OperationCosts
from tuner.schedules import SCHEMES

OVERLAP = Overlap(
    slow_down=0.5,
    slow_down_spread=0.01,
    collective=Transfer(latency_s=2.0, bandwidth_bytes_per_s=1e6),
    p2p=Transfer(latency_s=3.0, bandwidth_bytes_per_s=1e30),
    occupancy_s=0.25,
    repeats=5,
)


def overlapped(**changes: Any) -> ClusterProfile:
    """A cluster of one node whose links were measured beside computation."""
    cluster = make_cluster(node_devices=8, p2p=(1.0, 1e30), collective=(1.0, 1e6))
    link = cluster.link.model_copy(update={"overlap": OVERLAP.model_copy(update=changes)})
    return cluster.model_copy(update={"link": link})


def costs_on(
    cluster: ClusterProfile, schedule: str, recompute: Literal["none", "layer"] = "none"
) -> OperationCosts:
    """Of two pipelines of two ranks."""
    request = make_request(cluster=inline(cluster), devices=4, schedules=[schedule], mini_batch_size=16)
    configuration = Configuration(
        schedule=schedule, width=2, depth=2, micro_batch_size=2, micro_batches=4, recompute=recompute,
        chunks=SCHEMES[schedule].chunks,
    )  # fmt: skip
    return expect(request, configuration, library).costs


@pytest.mark.parametrize("schedule", ["chimera", "dapple", "interleaved", "zb_v"])
def test_costs_have_what_was_measured_beside_computation(schedule: str) -> None:
    """Hops and collectives are those beside computation, and each end of a message takes its time."""
    measured = overlapped()
    plain = measured.model_copy(update={"link": measured.link.model_copy(update={"overlap": None})})
    before, after = costs_on(plain, schedule), costs_on(measured, schedule)
    assert (before.slow_down, before.sync_beside_s, after.slow_down) == (0.0, None, 0.5)
    assert (after.latency_s == 3.0).all()
    assert (after.sync_s == before.sync_s).all()
    assert after.sync_beside_s is not None
    assert (after.sync_beside_s[: len(after.forward_s)] > before.sync_s[: len(after.forward_s)]).all()
    ends = message_ends(SCHEMES[schedule].placement(2, 1)[0])
    assert after.forward_s - before.forward_s == pytest.approx(0.25 * ends)
    assert after.input_gradient_s - before.input_gradient_s == pytest.approx(0.25 * ends)
    assert (after.weight_gradient_s == before.weight_gradient_s).all()


def test_messages_within_a_rank_have_no_ends() -> None:
    """Of a V only the outer cuts are between ranks; of one stage none are."""
    assert message_ends(np.array([0, 1, 1, 0])).tolist() == [1, 1, 1, 1]
    assert message_ends(np.array([0, 1, 2])).tolist() == [1, 2, 1]
    assert message_ends(np.array([0])).tolist() == [0]


def test_a_plan_says_what_was_measured_beside_computation() -> None:
    """A note of its provenance; its parts sum to the iteration, which is no shorter than without."""
    slowed = make_plan(cluster=inline(overlapped()), devices=4, mini_batch_size=16)
    assert any("50% slower while collectives run" in note for note in slowed.provenance.notes)
    nothing = {"slow_down": 0.0, "occupancy_s": 0.0}
    link = overlapped().link
    same = overlapped(**nothing, p2p=link.p2p, collective=link.collective)
    plain = make_plan(cluster=inline(same), devices=4, mini_batch_size=16)
    assert slowed.chosen is not None
    assert plain.chosen is not None
    predicted = slowed.chosen.predicted
    assert sum(predicted.breakdown.model_dump().values()) == pytest.approx(predicted.iteration_s)
    assert predicted.iteration_s >= plain.chosen.predicted.iteration_s


def test_what_the_own_runtime_does_beyond_a_plan_is_expected_of_a_run() -> None:
    """A collective of tied parameters takes its latency, and recompute=layer runs all layers again."""
    cluster = make_cluster(node_devices=8, collective=(0.5, 1e30))
    none, layer = (costs_on(cluster, "chimera", recompute=recompute) for recompute in ("none", "layer"))
    assert none.sync_s[2:].tolist() == [2 * 2 * 0.5]  # 2·log2(r)·α over r = 4 replicas
    assert (none.recompute_s == 0).all()
    assert layer.recompute_s == pytest.approx(layer.forward_s)
    assert layer.backward_s == pytest.approx(none.backward_s + none.forward_s)
