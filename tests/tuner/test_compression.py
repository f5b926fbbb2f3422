"""Does the model know what every compression sends, over what, and when it pays?"""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from profiles import library
from tests.tuner.factories import make_cluster, make_request
from tests.tuner.studies import make_trial
from tuner.compressed_plans import as_asked, settled
from tuner.compression import NAMES, Compression, read_compression, read_compressions
from tuner.enactment import configuration_of, enact, enact_chosen
from tuner.errors import UnsupportedOptionError
from tuner.network import Network
from tuner.operation_costs import OperationCosts
from tuner.options import options_of
from tuner.planning import answer
from tuner.schedules.generators import generate
from tuner.schedules.lowering import lower
from tuner.schedules.scheme import Floats
from tuner.simulation import simulate
from tuner.stage_costs import StageCosts
from tuner.synchronization import Synchronization


def test_the_volumes_are_those_of_the_papers() -> None:
    """In bits, for a million gradients in float32."""
    n = 1_000_000
    bits = {
        text: 8 * int(read_compression(text).volume_bytes(n)) for text in (*NAMES, "topk:0.001", "powersgd:2")
    }
    assert bits == {
        "none": 32 * n,
        "fp16": 16 * n,
        "bf16": 16 * n,
        "topk": 64 * 10_000,
        "gaussiank": 64 * 10_000,
        "qsgd": 2_800_032,
        "a2sgd": 64,
        "powersgd": 64 * 4 * 1000,
        "topk:0.001": 64 * 1000,
        "powersgd:2": 64 * 2 * 1000,
    }
    assert all(read_compression(text).volume_bytes(0) == 0 for text in NAMES)
    assert int(read_compression("topk").kept(1)) == 1


@pytest.mark.parametrize(
    "text", ["zip", "", "topk,,qsgd", "topk:0", "topk:nan", "topk:2", "powersgd:0", "powersgd:1.5", "a2sgd:0",
             "qsgd:4", "none:1", "topk:" + "9" * 100],
)  # fmt: skip
def test_what_is_no_compression_is_refused(text: str) -> None:
    """With what may be asked instead."""
    with pytest.raises(UnsupportedOptionError, match=r"choose from|takes? "):
        read_compressions(text)


def test_a_compression_is_written_as_it_is_read() -> None:
    """Its value only where it is not the usual one; `any` is all of them."""
    texts = ["topk", "topk:0.001", "gaussiank:0.5", "qsgd", "a2sgd:100", "powersgd:2"]
    assert [str(one) for one in read_compressions(",".join(texts))] == texts
    assert [one.name for one in read_compressions("any")] == list(NAMES[1:])
    assert read_compressions("none") == ()
    assert Compression("topk", ratio=0.01) == read_compression("topk:0.01")


@pytest.mark.parametrize("width", [2, 8])
def test_gathering_takes_what_a_ring_takes(width: int) -> None:
    """log2(r)·α + (r−1)·β·L between nodes of one device, half of the all-reduce of all bytes."""
    cluster = make_cluster(collective=(1e-5, 1e9), collective_factor=2.0)
    network, size, r = Network(cluster, width, 4, "pipe_major"), np.array([1e6]), 2 * width
    gathered = network.all_gather_s(size, 2)[0]
    assert gathered == pytest.approx(np.log2(r) * 1e-5 + (r - 1) * 2.0 * 1e6 / 1e9)
    assert gathered == pytest.approx(network.all_reduce_s(size * r, 2)[0] / 2)


def stages_of(*parameters: float) -> StageCosts:
    """As much of stages as their collectives ask for."""
    return cast(StageCosts, SimpleNamespace(all_parameters=np.array([parameters]), tied=()))


def in_all_s(text: str, stages: StageCosts, *, latency_s: float, width: int, copies: int) -> Floats:
    """What collectives and all that follows them take, where memory takes no time."""
    network = Network(make_cluster(collective=(latency_s, 1e8)), width, 4, "pipe_major")
    model = Synchronization(make_request(), 1, read_compression(text))
    return model.collective_s(stages, network, copies=copies, stopped=True) + model.after_s(
        stages, network, copies=copies
    )


@pytest.mark.parametrize(("width", "copies"), [(2, 1), (1, 2), (8, 2)])
@pytest.mark.parametrize("latency_s", [0.0, 1e-5, 1e-2])
def test_collectives_that_need_each_other_are_never_cheaper_than_one(
    latency_s: float, width: int, copies: int
) -> None:
    """Of the same bytes: one latency more. All but powersgd, and that of few gradients, have one alone."""
    sizes = (0.0, 1.0, 60.0, 65.0, 1e4, 3e8)
    stages, n = stages_of(*sizes), np.array([sizes])
    network = Network(make_cluster(collective=(latency_s, 1e8)), width, 4, "pipe_major")
    for text in (*NAMES, "powersgd:1", "topk:0.1"):
        how = read_compression(text)
        carry = network.all_gather_s if how.collective == "all_gather" else network.all_reduce_s
        one = carry(how.volume_bytes(n), copies)
        all_s = in_all_s(text, stages, latency_s=latency_s, width=width, copies=copies)
        more = 2 * np.log2(width * copies) * latency_s
        following = how.following_bytes(n)
        assert all_s == pytest.approx(np.where(following > 0, one + more, one), rel=1e-12)
        assert (all_s >= one * (1 - 1e-12)).all()
        assert (following > 0).any() == (how.name == "powersgd")
        assert (2 * following <= how.volume_bytes(n)).all()


def test_a_second_collective_is_not_hidden_by_computing() -> None:
    """Its time, what makes it and what follows it keep the rank; the first may be over before."""
    stages, n = stages_of(1e6), np.array([[1e6]])
    how, network = (
        read_compression("powersgd"),
        Network(make_cluster(collective=(1e-3, 1e8)), 8, 1, "pipe_major"),
    )
    quick, slow = (
        Synchronization(make_request(), 1, how, bytes_per_s=bytes_per_s).after_s(stages, network, copies=1)
        for bytes_per_s in (np.inf, 1e9)
    )
    assert quick == pytest.approx(network.all_reduce_s(how.volume_bytes(n) / 2, 1))
    assert slow - quick == pytest.approx(how.between_s(n, 1e9) + how.after_s(n, 1e9, replicas=8))
    assert how.between_s(n, 1e9) > 0


def test_compressing_keeps_a_rank_and_its_collective_waiting() -> None:
    """One rank alone: compute, compress, collective, decompress, update follow each other; also if slowed."""
    program = lower(generate("gpipe", depth=1, micro_batches=2))
    costs = OperationCosts.uniform(program, sync_s=5.0, update_s=0.5)
    both = replace(costs, compress_s=np.array([0.25]), decompress_s=np.array([0.125]))
    for each in (both, replace(both, slow_down=0.3)):
        timeline = simulate(program, each)
        assert timeline.makespan_s == 2 * 3 + 0.25 + 5 + 0.125 + 0.5


def test_nothing_is_compressed_unless_it_is_allowed() -> None:
    """And what is not faster is not chosen; the plan says so."""
    asked = make_request(devices=16, mini_batch_size=256)
    plain = answer(asked, library)
    assert plain.compression is None
    assert plain.chosen is not None
    assert plain.chosen.compression == "none"
    slow = answer(asked.model_copy(update={"compression": "a2sgd:1"}), library)
    assert slow.compression is not None
    assert slow.chosen == plain.chosen
    assert "no compression that is allowed is faster" in slow.compression.summary


def test_a_plan_says_what_a_compression_changes_and_risks() -> None:
    """Another layout, how much faster, and what may happen to convergence; frameworks get the plain one."""
    paper = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}
    asked = make_request(**paper, compression="topk,a2sgd")
    plan = answer(asked, library)
    note = plan.compression
    assert note is not None
    assert plan.chosen is not None
    assert plan.request["compression"] == "topk,a2sgd"
    assert [option.compression for option in note.options] == ["none", "topk", "a2sgd"]
    assert note.chosen == plan.chosen.compression == "a2sgd"
    assert note.changes_layout
    assert note.speed_up is not None
    assert note.speed_up > 1.1
    assert "replicas drift apart" in note.summary
    plain, _, best = note.options
    assert (best.width, best.depth) == (plan.chosen.width, plan.chosen.depth) != (plain.width, plain.depth)
    assert plan.sent_gradient_bytes == best.volume_bytes == 16
    assert plan.best_by_framework["megatron"].compression == "none"
    simulated = enact_chosen(asked, plan, library)
    assert simulated is not None
    assert simulated.makespan_s == pytest.approx(plan.chosen.predicted.iteration_s)
    parts = plan.chosen.predicted.breakdown
    assert sum(parts.model_dump().values()) == pytest.approx(plan.chosen.predicted.iteration_s)


def test_trials_run_with_the_compression_that_the_plan_chose() -> None:
    """None where none of those allowed is faster; what they gave says beside it what was allowed."""
    paper = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}
    asked = make_request(**paper, compression="topk,a2sgd")
    before = answer(asked, library)
    ran = settled(asked, before)
    assert ran.compression == "a2sgd"
    options = options_of(ran, library, search="greedy")
    rows = [make_trial(options[0], factor=2.0)]
    after = as_asked(before, answer(ran, library, trials=rows))
    assert after.chosen is not None
    assert after.chosen.compression == "a2sgd"
    assert after.compression == before.compression
    assert after.request["compression"] == "topk,a2sgd"
    assert {each.compression for each in after.best_by_framework.values()} == {"none"}
    small = make_request(devices=16, mini_batch_size=256, compression="a2sgd:1")
    assert settled(small, answer(small, library)).compression == "none"


def test_what_cannot_be_had_is_told_in_the_plan() -> None:
    """Codes that a sharded optimizer cannot sum; fp16 it can."""
    asked = make_request(
        devices=16, mini_batch_size=256, compression="qsgd,fp16", optimizer_sharding="replicas"
    )
    note = answer(asked, library).compression
    assert note is not None
    _, qsgd, fp16 = note.options
    assert qsgd.iteration_s is None
    assert "do not add" in (qsgd.reason or "")
    assert fp16.reason is None
    assert fp16.iteration_s is not None


@pytest.mark.parametrize("text", ["fp16", "topk", "a2sgd:1000", "powersgd"])
def test_equation_1_and_the_simulation_agree_on_what_is_not_hidden(text: str) -> None:
    """For one stage, which hides nothing: compressing, the collective and decompressing are all added."""
    base = make_request(
        cluster="piz-daint", devices=8, mini_batch_size=64, width=8, depth=1, schedules=("dapple",)
    )
    plan = answer(base.model_copy(update={"compression": text}), library)
    note = plan.compression
    assert note is not None
    assert note.chosen == text
    assert plan.chosen is not None
    predicted = plan.chosen.predicted
    assert predicted.simulated
    assert predicted.closed_form_s == pytest.approx(predicted.iteration_s, rel=1e-3)
    again = enact(base.model_copy(update={"compression": text}), configuration_of(plan.chosen), library)
    assert again.makespan_s == pytest.approx(predicted.iteration_s)
