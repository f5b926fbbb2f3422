"""What is expected of a run whose cut is asked for?"""

import pytest

from executor.trials.resolution import resolve
from executor.trials.trial_request import read_trial

RUN = {"model": "tiny-gpt", "schedule": "dapple", "depth": 3, "micro_batches": 4}


@pytest.mark.parametrize(("layers", "known"), [((1, 2, 1), True), ((2, 1, 1), True), ((1, 1, 2), False)])
def test_a_run_is_predicted_where_a_plan_could_cut_it_so(layers: tuple[int, ...], known: bool) -> None:
    """Balanced and even cuts are a plan's; nothing is expected of another, which runs as it is asked to."""
    prepared, expected = resolve(read_trial(RUN | {"partition": layers}))
    assert prepared.request.partition == layers
    assert (expected.stage_layers if expected else None) == (layers if known else None)
