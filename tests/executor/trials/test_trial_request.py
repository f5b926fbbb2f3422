"""Is what cannot run refused before anything is launched, and is the program the one that is predicted?"""

from typing import Any

import numpy as np
import pytest

from executor.errors import ConfigurationError
from executor.trials.prepared_trial import prepare
from executor.trials.rank_result import RankResult, on_one_clock
from executor.trials.trial import iteration_spans, periods
from executor.trials.trial_request import read_trial
from tuner.errors import ScheduleError, TunerError
from tuner.simulation import simulate

TINY = {"emulate": None, "model": "tiny-gpt"}
EMULATE = {"forward_s": 0.01, "backward_s": 0.02}


def asked(**options: Any) -> dict[str, Any]:
    """A request with some options changed."""
    return {"schedule": "dapple", "depth": 2, "micro_batches": 4, "emulate": EMULATE} | options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"emulate": None}, "either a model or what to emulate"),
        ({"model": "tiny-gpt"}, "not both"),
        ({"check": True}, "an emulated run has none"),
        ({"width": 40}, "80 processes; 64 is the most on one machine"),
        ({"width": 3000, "launcher": "slurm"}, "6000 processes; 4096 is the most with slurm"),
        ({"emulate": EMULATE | {"weight_gradient_s": 1.0}}, "a part of backward_s, which is 0.02"),
        ({"emulate": {"forward_s": 0.01}}, "backward_s"),
        ({"emulate": EMULATE | {"sleep_s": 1.0}}, "sleep_s"),
        ({"timeout_s": 0.0}, "timeout_s"),
        ({"precision": "int8"}, "precision"),
        ({"iterations": 0}, "iterations"),
    ],
)
def test_contradictions_and_wrong_values_are_told(options: dict[str, Any], words: str) -> None:
    """By name and number."""
    with pytest.raises(ConfigurationError, match=words):
        read_trial(asked(**options))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"schedule": "chimera", "depth": 3}, "even depth"),
        ({"schedule": "nothing"}, "there is no schedule nothing"),
        ({"schedule": "gpipe", "scaling": "doubling"}, "no option scaling"),
    ],
)
def test_a_schedule_that_cannot_run_that_way_is_refused(options: dict[str, Any], words: str) -> None:
    """In the schedule's own words."""
    with pytest.raises(ScheduleError, match=words):
        prepare(read_trial(asked(**options)))


def test_an_asynchronous_schedule_is_not_compared_with_one_process() -> None:
    """It would differ by its rule, and be taken for wrong."""
    options = {"emulate": None, "model": "tiny-gpt", "check": True}
    with pytest.raises(ConfigurationError, match="older weights by its rule"):
        prepare(read_trial(asked(schedule="pipedream_2bw", **options)))


def test_a_program_that_is_too_long_is_refused_before_it_is_made() -> None:
    """With what it would have; an asynchronous schedule has all iterations in one."""
    with pytest.raises(ConfigurationError, match=r"2 stages x 100,001 micro-batches are 200,002 forwards"):
        prepare(read_trial(asked(micro_batches=100_001)))
    with pytest.raises(ConfigurationError, match=r"x 10,002 iterations"):
        prepare(read_trial(asked(schedule="pipedream", micro_batches=20, iterations=10_000)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compression": "topk"}, "an emulated run has none"),
        ({"compression": "topk", **TINY, "check": True}, "differs by design"),
        ({"compression": "zip", **TINY}, "not modelled"),
        ({"compression": "topk", **TINY, "schedule": "pipedream"}, "synchronous"),
    ],
)
def test_a_compression_that_cannot_be_had_is_refused(options: dict[str, Any], words: str) -> None:
    """Before anything is launched."""
    with pytest.raises((ConfigurationError, TunerError), match=words):
        prepare(read_trial(asked(**options)))


def test_halving_needs_an_even_micro_batch() -> None:
    """Emulated messages have no samples."""
    halving = {"schedule": "chimera", "scaling": "halving", "micro_batch_size": 3}
    prepare(read_trial(asked(**halving)))
    with pytest.raises(ConfigurationError, match="3 samples have none"):
        prepare(read_trial(asked(**halving, emulate=None, model="tiny-gpt")))


def test_the_prediction_is_of_the_program_that_runs() -> None:
    """1F1B takes (N + D − 1)(F + B); what is sharded gathers its weights after the update."""
    prepared = prepare(read_trial(asked(width=2, optimizer_sharding="replicas")))
    assert prepared.costs is not None
    assert periods(simulate(prepared.program, prepared.costs)).tolist() == pytest.approx([5 * 0.03])
    assert set(prepared.program.columns.collective.tolist()) == {0, 1, 2}


def test_an_asynchronous_schedule_is_one_program_of_all_iterations() -> None:
    """Its period is N(F + B), once the pipeline is full."""
    prepared = prepare(read_trial(asked(schedule="pipedream", iterations=5, warm_up=3)))
    assert prepared.program.iterations == 8
    assert prepared.costs is not None
    assert np.median(periods(simulate(prepared.program, prepared.costs))) == pytest.approx(4 * 0.03)


def test_an_iteration_lasts_from_the_first_start_to_the_last_end() -> None:
    """Over all ranks."""
    prepared = prepare(read_trial(asked()))
    memory = {"peak_bytes": 2, "baseline_bytes": 1, "reserved_bytes": 2}
    ranks = [RankResult([1.0, 3.0], [2.0, 4.5], [], memory), RankResult([0.9, 3.1], [2.2, 4.0], [], memory)]
    assert iteration_spans(prepared, ranks) == [(0.9, 2.2), (3.0, 4.5)]


def test_ranks_on_several_machines_are_compared_by_their_common_start() -> None:
    """Each counts from another moment; what lasts as long lasts as long."""
    memory = {"peak_bytes": 2, "baseline_bytes": 1, "reserved_bytes": 2}
    first = RankResult([1.0, 3.0], [2.0, 4.5], [[[1.5]], [[3.5]]], memory, None, False)
    other = RankResult([901.0, 902.0], [902.5, 903.0], [[[901.25]], [[902.75]]], memory, None, False)
    ranks = on_one_clock([first, other])
    assert iteration_spans(prepare(read_trial(asked())), ranks) == [(1.0, 2.5), (3.0, 4.5)]
    assert [rank.moments for rank in ranks] == [[[[1.5]], [[3.5]]], [[[1.25]], [[3.75]]]]
