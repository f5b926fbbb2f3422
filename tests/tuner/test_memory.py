"""Is the memory of every rank what a recomputation by hand gives, part by part?"""

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from profiles import library
from tests.tuner.factories import GB, Shelf, gpt2, llama, make_plan
from tests.tuner.hand_memory import Device, peak_bytes, rank_parts
from tuner.configuration import Configuration
from tuner.errors import RequestError
from tuner.estimate import describe
from tuner.memory import ParameterBytes
from tuner.plan import Chosen, Plan
from tuner.request import read_request

LAWS = settings(max_examples=30, deadline=None, derandomize=True)

SCHEDULES = ("chimera", "gpipe", "dapple", "gems", "pipedream", "pipedream_2bw")


@st.composite
def small_requests(draw: st.DrawFn) -> dict[str, Any]:
    """Options over a small GPT-2 or Llama, all that the memory depends on drawn."""
    family = draw(st.sampled_from([gpt2, llama]))
    config = family(
        blocks=draw(st.integers(1, 10)),
        hidden=draw(st.sampled_from([32, 64, 256])),
        vocabulary=draw(st.sampled_from([50, 1000, 50_000])),
        tied=draw(st.booleans()),
    )
    return {
        "model": {"config": config},
        "cluster": draw(st.sampled_from(["dgx-h100", "piz-daint"])),
        "accelerator": "h100-80gb",
        "sequence_length": draw(st.sampled_from([16, 128, 1000])),
        "attention": draw(st.sampled_from(["flash", "eager"])),
        "precision": draw(st.sampled_from(["float32", "bfloat16", "float16"])),
        "gradient_precision": draw(st.sampled_from(["float32", "same"])),
        "optimizer": draw(st.sampled_from(["sgd", "momentum", "adam", "adamw"])),
        "optimizer_sharding": draw(st.sampled_from(["none", "replicas"])),
        "recompute": draw(st.sampled_from(["auto", "none", "stage", "layer"])),
        "schedules": [draw(st.sampled_from(SCHEDULES))],
        "search": draw(st.sampled_from(["greedy", "exhaustive"])),
        "partition": draw(st.sampled_from(["balanced", "even"])),
        "margin": draw(st.sampled_from([0.0, 0.05, 0.3])),
        "devices": draw(st.integers(1, 24)),
        "mini_batch_size": draw(st.sampled_from([1, 6, 16, 24, 48, 64, 72, 96])),
    }


def by_hand(
    options: dict[str, Any], plan: Plan, configuration: Any, *, memory_bytes: int
) -> list[dict[str, int]]:
    """The parts of every rank of a configuration of `plan`, recomputed."""
    request = read_request(options)
    assert not isinstance(request.model, str)
    assert request.model.config is not None
    description = describe(
        request.model.config,
        sequence_length=plan.model.sequence_length,
        precision=request.precision or "bfloat16",
        attention=request.attention or "flash",
    )
    software = library.load_cluster(str(request.cluster)).software
    device = Device(
        memory_bytes,
        software.framework_bytes,
        software.activation_factors.get(description.family, 1.0),
        software.asynchronous_weight_copies or 0.0,
    )
    names = Configuration.__dataclass_fields__
    return rank_parts(
        description,
        request,
        Configuration(**{name: getattr(configuration, name) for name in names}),
        stage_layers=configuration.stage_layers,
        device=device,
    )


def plan_or_assume(options: dict[str, Any], *, memory_bytes: int) -> tuple[Plan, Chosen]:
    """The plan of a request that has an answer."""
    try:
        plan = make_plan(shelf=Shelf(memory_bytes=memory_bytes), **options)
    except RequestError:
        plan = None
    assume(plan is not None and plan.chosen is not None)
    assert plan is not None
    assert plan.chosen is not None
    return plan, plan.chosen


@LAWS
@given(options=small_requests(), room=st.sampled_from([0.6, 0.7, 1.0, 2.0, 20.0, 80.0]))
def test_every_part_of_every_rank_is_what_a_recomputation_gives(options: dict[str, Any], room: float) -> None:
    """To the byte, over models, schedules, optimizers, precisions and recomputation; and it fits."""
    capacity = int(room * GB)
    plan, chosen = plan_or_assume(options, memory_bytes=capacity)
    ranks = by_hand(options, plan, chosen, memory_bytes=capacity)
    assert len(chosen.memory) == chosen.depth == len(ranks)
    for rank, (told, parts) in enumerate(zip(chosen.memory, ranks, strict=True)):
        assert told.rank == rank
        for name, size in parts.items():
            assert getattr(told, name) == pytest.approx(size, abs=1), name
        assert told.total_bytes == sum(getattr(told, name) for name in parts)
    assert max(told.total_bytes for told in chosen.memory) == chosen.peak_memory_bytes
    assert peak_bytes(ranks) <= capacity


@LAWS
@given(options=small_requests(), room=st.sampled_from([0.6, 0.8, 2.0]))
def test_every_candidate_fits_when_recomputed(options: dict[str, Any], room: float) -> None:
    """Not only the chosen one."""
    capacity = int(room * GB)
    plan, _ = plan_or_assume(options | {"top": 1000}, memory_bytes=capacity)
    for candidate in plan.candidates[:40]:
        ranks = by_hand(options, plan, candidate, memory_bytes=capacity)
        assert peak_bytes(ranks) == pytest.approx(candidate.peak_memory_bytes, abs=11)
        assert peak_bytes(ranks) <= capacity


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"precision": "bfloat16", "optimizer": "adam"}, (2, 4, 12)),
        ({"precision": "float16", "optimizer": "adamw"}, (2, 4, 12)),
        ({"precision": "float32", "optimizer": "adam"}, (4, 4, 8)),
        ({"precision": "bfloat16", "optimizer": "sgd"}, (2, 4, 4)),
        ({"precision": "float32", "optimizer": "sgd"}, (4, 4, 0)),
        ({"precision": "bfloat16", "optimizer": "momentum"}, (2, 4, 8)),
        ({"precision": "float32", "optimizer": "momentum"}, (4, 4, 4)),
        ({"precision": "bfloat16", "gradient_precision": "same"}, (2, 2, 12)),
        ({"precision": "float32", "gradient_precision": "same"}, (4, 4, 8)),
    ],
)
def test_bytes_for_each_parameter(options: dict[str, str], expected: tuple[int, int, int]) -> None:
    """Weights, gradients, and optimizer with float32 master weights under mixed precision."""
    request = read_request({"model": "m", "cluster": "c", "devices": 1, "mini_batch_size": 1} | options)
    each = ParameterBytes.of(request)
    assert (each.weights, each.gradients, each.optimizer) == expected


def test_a_tied_embedding_is_held_once_on_a_rank_and_twice_across_ranks() -> None:
    """Chimera's outer ranks hold embedding and head together; DAPPLE's first and last rank one each."""
    config = gpt2(blocks=4, hidden=64, vocabulary=50_000)
    table, block = 50_000 * 64, 12 * 64 * 64 + 13 * 64
    positions, norm = 4096 * 64, 2 * 64
    weights = {
        (schedule, depth): [rank.weights_bytes // 4 for rank in _chosen(config, schedule, depth).memory]
        for schedule, depth in (("dapple", 1), ("dapple", 2), ("chimera", 2))
    }
    whole = table + positions + norm + 4 * block
    assert weights["dapple", 1] == [whole]
    assert weights["dapple", 2] == [table + positions + 2 * block, table + norm + 2 * block]
    assert weights["chimera", 2] == [whole, whole]


def _chosen(config: dict[str, Any], schedule: str, depth: int) -> Chosen:
    plan = make_plan(
        model={"config": config}, sequence_length=64, precision="float32", schedules=schedule,
        depth=depth, width=1, partition="even", micro_batch_size=1,
    )  # fmt: skip
    assert plan.chosen is not None
    return plan.chosen


def test_uneven_stages_are_each_counted_for_themselves() -> None:
    """Blocks of [3, 3, 2, 2] on four ranks: every rank has its own, not the mean of 2.5."""
    config = gpt2(blocks=10, hidden=64, vocabulary=100)
    chosen = _chosen(config, "dapple", 4)
    assert chosen.stage_layers == (3, 3, 2, 2)
    block = 12 * 64 * 64 + 13 * 64
    table, positions, norm = 100 * 64, 4096 * 64, 2 * 64
    outer = (table + positions, 0, 0, table + norm)
    weights = [rank.weights_bytes // 4 for rank in chosen.memory]
    assert weights == [blocks * block + ends for blocks, ends in zip((3, 3, 2, 2), outer, strict=True)]
    kept = [rank.activations_bytes for rank in chosen.memory]
    assert kept[1] / (3 * 3) == pytest.approx(kept[2] / (2 * 2))


LLAMA_3_8B: dict[str, Any] = {
    "model": "llama-3-8b",
    "sequence_length": 8192,
    "devices": 64,
    "mini_batch_size": 512,
    "width": 64,
    "depth": 1,
    "schedules": "dapple",
}


def test_llama_3_8b_on_one_rank_needs_sharding() -> None:
    """W=64, D=1 needs about 165 GB without, of which 8.03 G parameters of 18 bytes are 145 GB."""
    plan = make_plan(**LLAMA_3_8B)
    assert plan.chosen is None
    (least, *_) = sorted(plan.rejected, key=lambda rejected: _gigabytes(rejected.reason))
    assert least.configuration.recompute in ("stage", "layer")
    reserve = 0.05 * 85.5
    assert 150 < _gigabytes(least.reason) - reserve < 170
    assert "optimizer 96.4 GB" in least.reason
    assert "use a larger depth or optimizer_sharding=replicas" in least.reason


def test_llama_3_8b_on_one_rank_fits_with_sharding_and_layer_recomputation() -> None:
    """67 to 75 GB, with every part shown."""
    plan = make_plan(**LLAMA_3_8B, optimizer_sharding="replicas", recompute="layer")
    assert plan.chosen is not None
    (rank,) = plan.chosen.memory
    assert 67 * GB <= rank.total_bytes <= 75 * GB
    assert rank.weights_bytes == 2 * plan.model.parameters
    assert rank.gradients_bytes == 4 * plan.model.parameters
    assert rank.optimizer_bytes == pytest.approx(12 * plan.model.parameters / 64, abs=1)
    # The fullest moment is the loss, when no block is being recomputed.
    assert rank.loss_bytes > rank.activations_bytes > 32 * 8192 * 4096 * 2
    assert rank.framework_bytes == GB
    assert rank.reserve_bytes == pytest.approx(0.05 * plan.cluster.memory_bytes, abs=1)
    assert rank.recompute_bytes == rank.communication_bytes == 0


def _gigabytes(reason: str) -> float:
    """The total in "rank 0 needs 165.2 GB of 85.5 GB, ..."."""
    return float(reason.split("needs ")[1].split(" GB", maxsplit=1)[0])


def test_more_of_anything_needs_more_memory() -> None:
    """A longer sequence and a larger micro-batch add activations and loss, never take any away."""
    totals = [
        _request_total(sequence_length=length, micro_batch_size=size)
        for length, size in ((64, 1), (128, 1), (128, 2), (256, 2), (256, 8))
    ]
    assert totals == sorted(totals)
    assert len(set(totals)) == len(totals)


def _request_total(**options: Any) -> int:
    plan = make_plan(
        model={"config": llama()}, width=2, depth=4, schedules="chimera", recompute="none", **options
    )
    assert plan.chosen is not None
    return plan.chosen.peak_memory_bytes
