"""Are memory predictions compared with measurements as they should be?"""

from typing import Any

import pytest

from profiles import library
from profiles.measurement import Measurement
from tuner.errors import RequestError
from tuner.memory_score import (
    Verdict,
    compare_memory,
    judge,
    measured_least_bytes,
    measured_peak_bytes,
    predict_memory,
    score_memory,
)
from tuner.replay import replay


def measured(*, status: str = "ok", **fields: Any) -> Measurement:
    """Chimera on 32 nodes, with `fields` instead."""
    configuration = {
        "schedule": "chimera", "width": 8, "depth": 4, "micro_batch_size": 8, "mini_batch_size": 512,
    }  # fmt: skip
    values: dict[str, Any] = {
        "model": "bert-48", "cluster": "piz-daint", "devices": 32, "sequence_length": 128,
        "precision": "float32", "configuration": configuration, "status": status,
    }  # fmt: skip
    if status == "ok" and not fields.keys() & {"peak_memory_gb", "peak_memory_bytes"}:
        fields["throughput_samples_per_s"] = 100.0
    return Measurement.model_validate(values | fields)


def test_the_prediction_is_what_a_plan_says_without_what_is_kept_free() -> None:
    """Rank by rank, and its parts sum to it."""
    row = measured()
    predicted = predict_memory(row, library)
    evaluated = replay(row, library).evaluated
    needed = evaluated.total_bytes[0] - evaluated.memory.reserve_bytes[0]
    assert list(predicted.rank_bytes) == needed.tolist()
    assert [sum(parts) for parts in zip(*predicted.part_bytes.values(), strict=True)] == needed.tolist()
    assert "reserve_bytes" not in predicted.part_bytes
    assert predicted.rank_bytes[predicted.fullest_rank] == max(predicted.rank_bytes)
    assert predicted.rank_bytes[predicted.emptiest_rank] == min(predicted.rank_bytes)


@pytest.mark.parametrize(
    ("status", "peak_gb", "capacity_share", "verdict"),
    [
        ("ok", None, 1.0, "agrees"),
        ("ok", None, 0.999, "refused_but_ran"),
        ("ok", 0.5, 0.999, "refused_but_ran"),
        ("ok", 0.95, 0.999, "refused_near_capacity"),
        ("out_of_memory", None, 1.0, "accepted_but_ran_out"),
        ("out_of_memory", None, 0.999, "agrees"),
    ],
)
def test_the_verdict_compares_the_decision_with_what_happened(
    status: str, peak_gb: float | None, capacity_share: float, verdict: Verdict
) -> None:
    """`peak_gb` is the measured share of the capacity; within 6 % below it a refusal is no fault."""
    predicted = predict_memory(measured(), library)
    capacity = capacity_share * max(predicted.rank_bytes)
    peak = {} if peak_gb is None else {"peak_memory_gb": {"max": peak_gb * capacity / 1e9}}
    row = measured(status=status, **peak)
    assert judge(row, predicted, capacity_bytes=capacity) == verdict
    assert compare_memory(row, library, capacity_bytes=capacity).verdict == verdict


def test_errors_are_of_the_fullest_and_the_emptiest_rank() -> None:
    """Over a row that was measured 10 % lower, one that was 20 % higher, and one without a figure."""
    ranks = predict_memory(measured(), library).rank_bytes
    low = measured(peak_memory_bytes=tuple(round(size / 1.1) for size in ranks))
    high = measured(peak_memory_bytes=tuple(round(size / 0.8) for size in ranks))
    score = score_memory(compare_memory(row, library) for row in (low, high, measured()))
    assert score.memory_mape == pytest.approx(0.15)
    assert score.memory_bias == pytest.approx(-0.05)
    assert score.min_mape == pytest.approx(0.15)
    assert score.oom_agreement == 1.0
    assert score.rows[2].max_error is None


def test_over_no_rows_there_is_no_score() -> None:
    """None, not 0."""
    score = score_memory([])
    assert (score.memory_mape, score.memory_bias, score.oom_agreement) == (None, None, None)


def test_bytes_of_every_rank_go_before_rounded_gigabytes() -> None:
    """Both may stand in one document."""
    row = measured(peak_memory_bytes=(3, 1, 2, 4), peak_memory_gb={"max": 9.0, "min": 8.0})
    assert (measured_peak_bytes(row), measured_least_bytes(row)) == (4, 1)
    rounded = measured(peak_memory_gb={"max": 9.0})
    assert (measured_peak_bytes(rounded), measured_least_bytes(rounded)) == (9e9, None)


def test_what_cannot_be_replayed_is_refused() -> None:
    """Doubling over 18 micro-batches at D = 4 has no program."""
    row = measured()
    odd = row.configuration.model_copy(update={"scaling": "doubling", "mini_batch_size": 512 + 64})
    with pytest.raises(RequestError, match="cannot be predicted"):
        predict_memory(row.model_copy(update={"configuration": odd}), library)
