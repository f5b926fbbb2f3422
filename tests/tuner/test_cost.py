"""Is the time of an iteration what equation 1 gives by hand, and does it move the right way?"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles import library
from profiles.cluster import ClusterProfile
from profiles.timings import Profile
from tests.tuner.factories import Shelf, inline, llama, make_cluster, make_plan, make_profile, make_request
from tuner.cost import IterationTimes
from tuner.evaluated import Variant
from tuner.evaluation import Evaluator
from tuner.inputs import gather
from tuner.schedules import find_scheme
from tuner.space import Layout

LAWS = settings(max_examples=25, deadline=None, derandomize=True)

BLOCKS = 8
FORWARD_S, BACKWARD_S = 0.010, 0.025
"""Seconds of a block's forward and backward at B=1; others are in proportion."""
CUT_BYTES = 1_000
"""Of `factories.layer`, for each sample."""


def equal_blocks(**layer: Any) -> Profile:
    """Eight blocks and nothing else."""
    return make_profile((1, FORWARD_S, BACKWARD_S), blocks=BLOCKS, **layer)


def times(
    schedule: str,
    *,
    depth: int,
    micro_batches: int,
    width: int = 1,
    micro_batch_size: int = 1,
    scaling: Any = "direct",
    pairs: int = 1,
    recompute: Any = "none",
    cluster: ClusterProfile | None = None,
    profile: Profile | None = None,
    **options: Any,
) -> IterationTimes:
    """Equation 1 for one configuration, at one micro-batch size."""
    profile = profile or equal_blocks()
    request = make_request(
        model={"profile": profile.fingerprint()},
        cluster=inline(cluster or make_cluster()),
        devices=width * depth,
        mini_batch_size=width * micro_batches * micro_batch_size,
        optimizer="sgd",
        **options,
    )
    evaluator = Evaluator(gather(request, library, profile=profile))
    variant = Variant(find_scheme(schedule), Layout(width, depth), scaling, pairs, recompute)
    evaluated = evaluator.evaluate(variant, np.array([micro_batch_size]))
    assert evaluated is not None
    return evaluated.times


# (schedule, scaling, f, D, N): C_f and C_b of reference texts at B = 2.5 F.
PATHS = [
    ("gpipe", "direct", 1, 4, 8, 11, 11),
    ("dapple", "direct", 1, 4, 8, 11, 11),
    ("dapple", "direct", 1, 1, 3, 3, 3),
    ("gems", "direct", 1, 4, 6, 9, 24),
    ("chimera", "direct", 1, 4, 4, 4, 6),
    ("chimera", "direct", 1, 4, 8, 4 + 2, 2 * 6),
    ("chimera", "direct", 2, 8, 8, 8, 10),
    ("chimera", "doubling", 1, 4, 8, 8 + 2 * 0.5, 8 + 2 * 0.5),
    ("chimera", "doubling", 1, 4, 16, 16 + 2 * (0.5 - 2), 16 + 2 * (0.5 + 1)),
    ("chimera", "halving", 1, 4, 8, 8 + 2 * (0 - 1), 8 + 2 * (0.5 + 0.5)),
    ("pipedream_2bw", "direct", 1, 4, 8, 8, 8),
]


@pytest.mark.parametrize(("schedule", "scaling", "pairs", "depth", "count", "forwards", "backwards"), PATHS)
def test_equal_stages_take_the_critical_path(
    schedule: str, scaling: str, pairs: int, depth: int, count: int, forwards: float, backwards: float
) -> None:
    """T = C_f·F + C_b·B: the work N(F + B) of a rank, the rest bubble."""
    found = times(
        schedule, depth=depth, micro_batches=count, scaling=scaling, pairs=pairs, micro_batch_size=2
    )
    forward, backward = (2 * BLOCKS / depth * seconds for seconds in (FORWARD_S, BACKWARD_S))
    assert found.work_s[0] == pytest.approx(count * (forward + backward))
    assert found.work_s[0] + found.bubble_s[0] == pytest.approx(forwards * forward + backwards * backward)
    assert found.p2p_s[0] + found.all_reduce_s[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(("schedule", "scaling", "pairs", "depth", "count", "forwards", "backwards"), PATHS)
def test_every_step_of_the_critical_path_waits_for_a_message(
    schedule: str, scaling: str, pairs: int, depth: int, count: int, forwards: float, backwards: float
) -> None:
    """C_f + C_b hops of α + β·L; halved backwards send two messages of half the size."""
    cluster = make_cluster(p2p=(0.001, 1e6))
    found = times(
        schedule, depth=depth, micro_batches=count, scaling=scaling, pairs=pairs,
        micro_batch_size=2, cluster=cluster,
    )  # fmt: skip
    size_s = 2 * CUT_BYTES / 1e6
    hop = 0.001 + size_s if depth > 1 else 0.0
    back = 2 * (0.001 + size_s / 2) if scaling == "halving" else hop
    assert found.p2p_s[0] == pytest.approx(forwards * hop + backwards * back)


@pytest.mark.parametrize(("recompute", "more"), [("none", 0.0), ("stage", FORWARD_S), ("layer", FORWARD_S)])
def test_recomputation_adds_a_forward_to_every_backward(recompute: str, more: float) -> None:
    """Of the whole stage, or of its blocks."""
    found = times("dapple", depth=2, micro_batches=4, recompute=recompute)
    step = BLOCKS / 2 * (FORWARD_S + BACKWARD_S + more)
    assert found.work_s[0] + found.bubble_s[0] == pytest.approx((4 + 2 - 1) * step)


def test_the_compute_factor_stretches_the_compute() -> None:
    """Layer times inside a run over the profiled ones."""
    plain = times("chimera", depth=4, micro_batches=4)
    slow = times("chimera", depth=4, micro_batches=4, cluster=make_cluster(compute_factor=1.5))
    assert slow.work_s[0] == pytest.approx(1.5 * plain.work_s[0])
    assert slow.bubble_s[0] == pytest.approx(1.5 * plain.bubble_s[0])
    assert slow.update_s[0] == pytest.approx(1.5 * plain.update_s[0])


def test_the_optimizer_step_reads_and_writes_its_state_once() -> None:
    """SGD in float32: 4 bytes of gradient, 8 of weights, over the bandwidth that the device reaches."""
    sheet = library.load_accelerator("h100-80gb")
    bandwidth = sheet.memory_bandwidth_bytes_per_s * sheet.efficiency.bandwidth_share
    billion = equal_blocks(parameters=1_000_000_000, active_parameters=1_000_000_000)
    found = times("dapple", depth=2, micro_batches=4, profile=billion)
    assert found.update_s[0] == pytest.approx(4 * 1_000_000_000 * 12 / bandwidth)


# A collective of one stage of D = 4 at two blocks of 100 parameters takes a·2·(r−1)/r of 800 bytes.
STAGE_BACKWARD_S = BLOCKS / 4 * BACKWARD_S


def collectives(seconds: float, *, replicas: int, lanes: int) -> ClusterProfile:
    """Links on which the collective of a stage of two blocks takes `seconds`."""
    volume = 2 * (replicas - 1) / replicas * 2 * 100 * 4
    kind = "side_by_side" if lanes == 2 else "one_after_another"
    return make_cluster(collective=(0.0, volume / seconds), collectives=kind)


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("share", [0.4, 1.7, 5.0])
def test_chimera_starts_the_collectives_of_late_stages_early(share: float, lanes: int) -> None:
    """Stage 3 may start 3·B before the end; stages 1 and 2 when their rank has finished, B before it.

    Rank 0 has stages 0 and 3, rank 1 stages 1 and 2; on one lane the second waits for the first.
    """
    length = share * STAGE_BACKWARD_S
    cluster = collectives(length, replicas=8, lanes=lanes)
    found = times("chimera", depth=4, micro_batches=4, width=4, cluster=cluster)
    early = -3 * STAGE_BACKWARD_S + length
    outer = length if lanes == 2 else max(0.0, early) + length
    inner = -STAGE_BACKWARD_S + (1 if lanes == 2 else 2) * length
    assert found.all_reduce_s[0] == pytest.approx(max(0.0, outer, inner))


@pytest.mark.parametrize("lanes", [1, 2])
def test_gems_starts_its_collectives_when_the_rank_has_finished(lanes: int) -> None:
    """Both stages of the outer ranks wait for the end."""
    length = 1.7 * STAGE_BACKWARD_S
    cluster = collectives(length, replicas=8, lanes=lanes)
    found = times("gems", depth=4, micro_batches=4, width=4, cluster=cluster)
    assert found.all_reduce_s[0] == pytest.approx(length if lanes == 2 else 2 * length)


@pytest.mark.parametrize("schedule", ["gpipe", "dapple"])
def test_one_pipe_exposes_the_collective_of_the_first_stage(schedule: str) -> None:
    """The others hide behind the backwards before theirs."""
    length = 1.7 * STAGE_BACKWARD_S
    found = times(
        schedule, depth=4, micro_batches=4, width=4, cluster=collectives(length, replicas=4, lanes=2)
    )
    assert found.all_reduce_s[0] == pytest.approx(length)


def test_one_group_of_one_pipe_synchronises_nothing() -> None:
    """W=1 without a second copy; Chimera's two copies are summed even then."""
    cluster = make_cluster(collective=(1.0, 1.0))
    assert times("dapple", depth=4, micro_batches=4, cluster=cluster).all_reduce_s[0] == 0.0
    assert times("chimera", depth=4, micro_batches=4, cluster=cluster).all_reduce_s[0] > 2.0


@pytest.mark.parametrize(
    ("schedule", "ratio"),
    [("chimera", (4 - 2) / (2 * 8 + 4 - 2)), ("gpipe", 3 / 11), ("dapple", 3 / 11)],
)
def test_the_bubble_ratio_of_a_plan_is_that_of_table_2(schedule: str, ratio: float) -> None:
    """D=4, N=8 at F = B, where Chimera's row is exact."""
    plan = make_plan(
        profile=make_profile((1, 0.01, 0.01), blocks=BLOCKS), cluster=inline(make_cluster()),
        schedules=schedule, devices=4, depth=4, width=1, mini_batch_size=8, micro_batch_size=1,
        recompute="none",
    )  # fmt: skip
    assert plan.chosen is not None
    assert plan.chosen.predicted.bubble_ratio == pytest.approx(ratio, abs=1e-3)


@LAWS
@given(
    slower=st.floats(1, 50), blocks=st.integers(2, 8), devices=st.sampled_from([4, 6, 8, 16]),
    search=st.sampled_from(["greedy", "exhaustive"]), node=st.sampled_from([1, 4, 8]),
)  # fmt: skip
def test_slower_links_never_make_the_best_iteration_faster(
    slower: float, blocks: int, devices: int, search: str, node: int
) -> None:
    """Whatever is chosen then."""
    fast, slow = (
        make_plan(
            model={"config": llama(blocks=blocks, hidden=256, vocabulary=1000)},
            sequence_length=128,
            devices=devices,
            mini_batch_size=48,
            search=search,
            cluster=inline(
                make_cluster(
                    node_devices=node,
                    p2p=(1e-5 * by, 1e10 / by),
                    collective=(1e-5 * by, 1e9 / by),
                    inside_p2p=(2e-6 * by, 1e11 / by),
                    inside_collective=(2e-6 * by, 1e11 / by),
                )
            ),
        ).chosen
        for by in (1.0, slower)
    )
    assert fast is not None
    assert slow is not None
    assert slow.predicted.iteration_s >= fast.predicted.iteration_s * (1 - 1e-9)


@LAWS
@given(faster=st.floats(1, 10), blocks=st.integers(2, 8), devices=st.sampled_from([1, 4, 6, 8, 16]))
def test_a_faster_device_is_never_slower(faster: float, blocks: int, devices: int) -> None:
    """With more FLOP/s and bandwidth, on the same links."""
    slow, fast = (
        make_plan(
            shelf=Shelf(faster=by),
            model={"config": llama(blocks=blocks, hidden=256, vocabulary=1000)},
            sequence_length=128,
            devices=devices,
            mini_batch_size=48,
            search="exhaustive",
            partition="even",
        ).chosen
        for by in (1.0, faster)
    )
    assert slow is not None
    assert fast is not None
    assert fast.predicted.iteration_s <= slow.predicted.iteration_s * (1 + 1e-9)


def block_forward_s(micro_batch_size: int, *points: tuple[int, float, float]) -> float:
    """Forward of a block as the model has it."""
    profile = make_profile(*points, blocks=1)
    inputs = gather(make_request(model={"profile": profile.fingerprint()}), library, profile=profile)
    costs = Evaluator(inputs).layers.costs(np.array([micro_batch_size]))
    return float(costs.forward_s[0, 0])


@pytest.mark.parametrize(
    ("micro_batch_size", "expected"),
    [(2, 2.0), (4, 3.0), (6, 4.0), (8, 5.0), (16, 9.0), (32, 17.0), (1, 1.5)],
)
def test_times_are_linear_between_points_and_keep_the_last_slope_beyond(
    micro_batch_size: int, expected: float
) -> None:
    """Points at 2, 4 and 8 with slope 1/2 throughout, and an intercept of 1."""
    points = ((2, 2.0, 2.0), (4, 3.0, 2.0), (8, 5.0, 2.0))
    assert block_forward_s(micro_batch_size, *points) == pytest.approx(expected)


def test_one_point_is_taken_in_proportion() -> None:
    """Nothing else is known."""
    assert block_forward_s(8, (4, 1.0, 1.0)) == pytest.approx(2.0)


def test_below_the_first_point_a_time_stays_positive() -> None:
    """A steep line is not followed below zero: at least in proportion to B."""
    assert block_forward_s(1, (2, 1.0, 1.0), (4, 9.0, 1.0)) == pytest.approx(0.5)


def test_falling_times_do_not_fall_further_beyond_the_last_point() -> None:
    """The last slope counts only where it rises."""
    assert block_forward_s(64, (1, 5.0, 1.0), (2, 3.0, 1.0)) == pytest.approx(3.0)


@pytest.mark.parametrize(("micro_batch_size", "flagged"), [(2, False), (4, False), (8, True), (1, True)])
def test_extrapolated_times_are_flagged(micro_batch_size: int, flagged: bool) -> None:
    """With the size and the range that was profiled."""
    plan = make_plan(
        profile=make_profile((2, 0.1, 0.2), (4, 0.2, 0.4)), micro_batch_size=micro_batch_size, devices=4
    )
    notes = [note for note in plan.provenance.notes if "extrapolated" in note]
    assert notes == (
        [f"times of block at B={micro_batch_size} are extrapolated from 2..4"] if flagged else []
    )
    assert plan.provenance.timings == "measured"


def test_layers_without_timings_are_flagged_as_estimated() -> None:
    """The published times of BERT are those of its block alone."""
    plan = make_plan(model="bert-48", cluster="piz-daint", devices=32, mini_batch_size=512)
    assert plan.provenance.timings == "published"
    (note,) = [note for note in plan.provenance.notes if "estimated" in note]
    assert "embedding" in note
    assert "loss" in note
    assert "block" not in note


def test_a_profile_of_another_device_is_not_used_silently() -> None:
    """Times on a device that was not profiled are estimated, and the plan says so."""
    plan = make_plan(profile=make_profile((1, 0.1, 0.2), accelerator="a100-80gb"))
    assert plan.provenance.timings == "estimated"
    assert "the profile was taken on a100-80gb: times on h100-80gb are estimated" in plan.provenance.notes
