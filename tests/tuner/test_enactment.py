"""Is the timeline of a choice that of the plan, made without a search?"""

from typing import Any

import pytest

from profiles import library
from tests.tuner.factories import make_plan, make_request
from tuner.configuration import Configuration
from tuner.enactment import MOST_OPERATIONS, configuration_of, enact, enact_chosen, operations
from tuner.errors import RequestError, TooLongError
from tuner.plan import Plan
from tuner.timeline_document import timeline_document

BERT: dict[str, Any] = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}


@pytest.mark.parametrize(
    "options",
    [
        {},
        BERT,
        BERT | {"search": "exhaustive"},
        BERT | {"schedules": "gems"},
        BERT | {"schedules": "interleaved"},
        BERT | {"schedules": "chimera", "depth": 4, "micro_batch_size": 1},
        BERT | {"schedules": "chimera_split", "optimizer_sharding": "replicas"},
        BERT | {"recompute": "layer"},
    ],
    ids=str,
)
def test_the_makespan_is_the_predicted_iteration(options: dict[str, Any]) -> None:
    """To the last bit: the same simulation, of one configuration alone."""
    plan = make_plan(**options)
    assert plan.chosen is not None
    assert plan.chosen.predicted.simulated
    timeline = enact_chosen(make_request(**options), plan, library)
    assert timeline is not None
    assert timeline.makespan_s == plan.chosen.predicted.iteration_s


def test_every_candidate_can_be_enacted() -> None:
    """Those that were simulated take as long as the plan says."""
    request = make_request(**BERT)
    for candidate in make_plan(**BERT).candidates:
        timeline = enact(request, configuration_of(candidate), library)
        if candidate.predicted.simulated:
            assert timeline.makespan_s == candidate.predicted.iteration_s


def test_an_asynchronous_schedule_is_shown_in_several_iterations() -> None:
    """Its last period is what the plan predicts."""
    options = BERT | {"schedules": "pipedream_2bw"}
    plan = make_plan(**options)
    timeline = enact_chosen(make_request(**options), plan, library)
    assert plan.chosen is not None
    assert timeline is not None
    assert timeline_document(timeline)["iterations"] == 4
    assert timeline.makespan_s > 4 * plan.chosen.predicted.iteration_s - 1e-9


def test_equal_questions_give_equal_timelines() -> None:
    """No hidden state."""
    plan: Plan = make_plan(**BERT)
    first, second = (enact_chosen(make_request(**BERT), plan, library) for _ in range(2))
    assert first is not None
    assert second is not None
    assert timeline_document(first) == timeline_document(second)


def test_nothing_chosen_has_no_timeline() -> None:
    """None, not an error."""
    options = {"model": "llama-3-70b", "devices": 4}
    assert enact_chosen(make_request(**options), make_plan(**options), library) is None


def test_too_long_a_program_is_refused_with_its_numbers() -> None:
    """How many operations it has, and how many are simulated."""
    request = make_request(**BERT | {"mini_batch_size": 32 * 4096})
    longest = Configuration("dapple", 1, 32, 1, 4096)
    assert operations(longest) == 262_144 > MOST_OPERATIONS
    with pytest.raises(TooLongError, match="262,144 forwards and backwards"):
        enact(request, longest, library)


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        pytest.param(Configuration("dapple", 8, 4, 8, 7), "a mini-batch of 512$", id="other mini-batch"),
        pytest.param(Configuration("dapple", 1, 64, 8, 64), "its 64 stages", id="more stages than blocks"),
        pytest.param(Configuration("gems", 1, 3, 8, 64), "even", id="odd depth"),
        pytest.param(Configuration("interleaved", 1, 3, 8, 64, chunks=2), "D to divide N", id="left over"),
    ],
)
def test_a_configuration_of_another_question_is_refused(configuration: Configuration, reason: str) -> None:
    """It names the configuration, and why where the schedule says."""
    with pytest.raises(RequestError, match=f"is no configuration of 48 blocks.*{reason}"):
        enact(make_request(**BERT), configuration, library)
