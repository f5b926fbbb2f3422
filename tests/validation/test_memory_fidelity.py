"""Is the memory that Chimera (Li & Hoefler, SC'21) measured predicted, and is the model biased upward?"""

import pytest

from profiles import library
from profiles.measurement import Measurement
from tests.tuner.factories import make_plan
from tuner.memory_score import ComparedMemory, compare_memory, score_memory

CAPACITY_BYTES = 16.0e9
NOT_EXPLAINED = ("gpt2-64", "pipedream_2bw", 128)
"""Ran out of memory (fig. 11), though what agrees with the other rows of its schedule asks for 14.6 GB."""


@pytest.fixture(scope="module")
def rows() -> list[ComparedMemory]:
    """Every published row of Piz Daint beside its prediction, decided at 16.0 GB with nothing kept free."""
    published = library.load_measurements("chimera-sc21").measurements
    return [compare_memory(row, library, capacity_bytes=CAPACITY_BYTES) for row in published]


def test_figure_9_is_predicted_within_6_percent_on_average_and_not_too_low(
    rows: list[ComparedMemory],
) -> None:
    """The maximum over the ranks, asynchronous schedules included; no row is more than 9 % off."""
    score = score_memory(row for row in rows if row.measurement.where == "fig. 9")
    errors = [row.max_error for row in score.rows if row.max_error is not None]
    assert len(errors) == 12
    assert score.memory_mape is not None
    assert score.memory_mape <= 0.06
    assert score.memory_bias is not None
    assert 0 <= score.memory_bias <= 0.03
    assert max(map(abs, errors)) <= 0.09


def test_every_decision_of_figure_9_is_what_happened(rows: list[ComparedMemory]) -> None:
    """Six rows ran out of memory, and none of them is accepted; nothing that ran is refused."""
    figure = [row for row in rows if row.measurement.where == "fig. 9"]
    assert sum(row.measurement.status == "out_of_memory" for row in figure) == 6
    assert {row.verdict for row in figure} == {"agrees"}


def test_every_decision_but_one_is_what_happened(rows: list[ComparedMemory]) -> None:
    """Over all figures, rows without a memory figure included."""
    wrong = [row.measurement for row in rows if row.verdict != "agrees"]
    assert [(row.model, row.configuration.schedule, row.configuration.width) for row in wrong] == [
        NOT_EXPLAINED
    ]


def test_the_emptiest_rank_is_less_well_known(rows: list[ComparedMemory]) -> None:
    """Published fits are 12 to 18 % off there; it decides nothing."""
    score = score_memory(row for row in rows if row.measurement.where == "fig. 9")
    assert score.min_mape is not None
    assert score.min_mape <= 0.15


def test_four_coefficients_were_fitted() -> None:
    """And the cluster says so."""
    software = library.load_cluster("piz-daint").software
    fitted = [software.framework_bytes, *software.activation_factors.values()]
    assert len([*fitted, software.asynchronous_weight_copies]) == 4
    assert software.provenance == "fitted"
    assert "benchmarks/memory_fidelity.py --fit" in software.source


def test_no_other_cluster_has_fitted_memory() -> None:
    """What was learnt of PyTorch 1.6 on one machine is not applied elsewhere."""
    for name in library.names("clusters"):
        software = library.load_cluster(name).software
        if name != "piz-daint":
            assert (software.activation_factors, software.asynchronous_weight_copies) == ({}, None)


def test_what_the_paper_recomputed_would_not_have_fitted_without(rows: list[ComparedMemory]) -> None:
    """Its (32, 16, 1) of gpt2-64 needed recomputation, its (16, 32, 1) did not: 5 % of bias would flip it."""
    recomputed = [
        row.measurement
        for row in rows
        if row.measurement.configuration.recompute != "none" and row.measurement.status == "ok"
    ]
    assert len(recomputed) > 10
    for row in recomputed:
        without = compare_memory(_not_recomputed(row), library, capacity_bytes=CAPACITY_BYTES)
        assert max(without.predicted.rank_bytes) > CAPACITY_BYTES, row.configuration


def _not_recomputed(row: Measurement) -> Measurement:
    ran = row.configuration.model_copy(update={"recompute": "none"})
    return row.model_copy(update={"configuration": ran})


@pytest.mark.parametrize(("depth", "recompute"), [(32, "none"), (16, "layer")])
def test_the_plan_recomputes_where_the_paper_did(depth: int, recompute: str) -> None:
    """With the usual 5 % kept free: 16.2 of 17.1 GB; of stage and layer it takes the lower peak."""
    plan = make_plan(
        model="gpt2-64",
        cluster="piz-daint",
        devices=512,
        mini_batch_size=512,
        schedules="chimera",
        depth=depth,
        micro_batch_size=1,
    )
    assert plan.chosen is not None
    assert plan.chosen.recompute == recompute
