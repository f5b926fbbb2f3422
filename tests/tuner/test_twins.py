"""Is what runs the same operations tried once?"""

from profiles import library
from tests.tuner.factories import make_request
from tuner.evaluation import Evaluator
from tuner.inputs import gather
from tuner.options import judged, options_of
from tuner.ranking import Ranking
from tuner.schedules.generators import program_of
from tuner.search import Search
from tuner.twins import first_names

REQUEST = make_request(cluster="local-cpu", devices=2, mini_batch_size=8)
EVALUATOR = Evaluator(gather(REQUEST, library))
KNOWN = judged(Ranking(EVALUATOR), Search(EVALUATOR).exhaustive().fitting)
FIRST = first_names(KNOWN)


def test_twins_run_the_same_operations_on_the_same_ranks() -> None:
    """And there are some: without a pipeline GPipe and 1F1B of one micro-batch are one."""
    twins = [(name, first) for name, first in FIRST.items() if name != first]

    assert any({name.schedule, first.schedule} == {"dapple", "gpipe"} for name, first in twins)
    for name, first in twins:
        one, other = program_of(name), program_of(first)
        assert one.ranks == other.ranks
        assert (one.placement == other.placement).all()
        assert (name.width, name.micro_batch_size, name.recompute) == (
            first.width, first.micro_batch_size, first.recompute
        )  # fmt: skip


def test_an_option_stands_under_its_first_name_alone() -> None:
    """Whatever fits is an option, or runs as one."""
    options = {option.configuration for option in options_of(REQUEST, library)}

    assert options == set(FIRST.values())
    assert len(options) < len(KNOWN)
