"""Is the memory along a timeline that of the plan, but for what single operations need while they run?"""

from typing import Any

import numpy as np
import pytest

from profiles import library
from tuner.enactment import configuration_of, enact_candidate, hold
from tuner.memory_replay import StageBytes, replay_memory
from tuner.planning import answer
from tuner.request import read_request

BERT = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}


@pytest.mark.parametrize(
    "options",
    [
        {"schedules": "dapple", "depth": 4},
        {"schedules": "gpipe", "depth": 8},
        {"schedules": "chimera", "depth": 8, "recompute": "stage"},
        {"schedules": "interleaved", "depth": 8, "recompute": "layer"},
        {"schedules": "zb_h1", "depth": 4},
    ],
    ids=str,
)
def test_the_fullest_moment_of_the_timeline_is_that_of_the_plan(options: dict[str, Any]) -> None:
    """What lasts and what live micro-batches keep is never more than the peak, and explains most of it."""
    request = read_request(BERT | options)
    plan = answer(request, library)
    assert plan.chosen
    enacted = enact_candidate(request, plan.chosen, library)
    held, kept = enacted.held, enacted.held.kept_bytes
    drawn = held.always_bytes + replay_memory(enacted.timeline, StageBytes(kept, kept)).peak_bytes()
    for rank, peak, shown in zip(plan.chosen.memory, held.peak_bytes, drawn, strict=True):
        working = rank.loss_bytes + rank.transient_bytes + rank.recompute_bytes
        assert peak == rank.total_bytes - rank.reserve_bytes
        assert shown <= peak + 10
        assert shown >= peak - working - 10 or plan.chosen.schedule.startswith("zb")
    assert held.capacity_bytes == plan.cluster.memory_bytes
    again = hold(request, configuration_of(plan.chosen), library)
    assert np.array_equal(again.always_bytes, held.always_bytes)
