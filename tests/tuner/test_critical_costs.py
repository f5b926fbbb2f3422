"""Is the simulated time the sum of the costs along its chain, and the chain's derivative that of the time?"""

import numpy as np
import pytest

from profiles import library
from tests.tuner.measured import make_measurement, truth
from tuner.coefficients import NAMES, with_values
from tuner.observation import Predictor
from tuner.replay import replay

CASES = [
    {"schedule": "gpipe", "micro_batch_size": 2},
    {"schedule": "dapple", "width": 2, "depth": 16},
    {"schedule": "gems", "width": 16, "depth": 2, "micro_batch_size": 8},
    {"schedule": "chimera", "micro_batch_size": 8},
    {"schedule": "chimera", "micro_batch_size": 4, "scaling": "doubling", "recompute": "stage"},
    {"schedule": "chimera", "micro_batch_size": 4, "scaling": "halving"},
    {"schedule": "chimera", "micro_batch_size": 8, "pipe_pairs": 2},
    {"schedule": "pipedream_2bw", "micro_batch_size": 8},
    {"schedule": "pipedream", "width": 8, "depth": 4, "micro_batch_size": 10, "mini_batch_size": 80},
]


def predictor(case: dict[str, object]) -> Predictor:
    """The prediction of one configuration."""
    replayed = replay(make_measurement(**case), library)
    return Predictor(replayed.evaluator, replayed.evaluated)


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_the_chain_adds_up_to_what_a_plan_says(case: dict[str, object]) -> None:
    """At other coefficients than the cluster's, against the planner's own simulation."""
    cluster = with_values(library.load_cluster("piz-daint"), truth())
    planned_s = replay(make_measurement(**case), library, cluster=cluster).simulated_s
    assert predictor(case).line(truth()).value_s == pytest.approx(planned_s, rel=1e-9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_the_derivatives_are_those_of_the_simulated_time(case: dict[str, object]) -> None:
    """Each coefficient is moved by a ten-thousandth and simulated again."""
    prediction = predictor(case)
    line = prediction.line(truth())
    for position, name in enumerate(NAMES):
        moved = truth()
        moved[position] *= 1.0001
        simulated = prediction.line(moved).value_s - line.value_s
        extended = line.extended_s(moved) - line.value_s
        assert simulated == pytest.approx(extended, rel=1e-3, abs=1e-7), name


@pytest.mark.parametrize("case", CASES[:7], ids=lambda case: " ".join(map(str, case.values())))
def test_a_line_is_never_above_the_simulated_time(case: dict[str, object]) -> None:
    """The makespan is the maximum over chains, so every chain is a lower bound, also far away."""
    prediction, generator = predictor(case), np.random.default_rng(7)
    line = prediction.line(truth())
    for _ in range(8):
        elsewhere = truth() * generator.uniform(0.2, 3.0, len(NAMES))
        assert line.extended_s(elsewhere) <= prediction.line(elsewhere).value_s * (1 + 1e-9)
