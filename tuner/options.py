"""Which configurations of a request may be tried? All that fit, with the model's word on each."""

from collections.abc import Sequence
from typing import Literal

from profiles.timings import Profile
from tuner.choice import Choice
from tuner.evaluation import Evaluator
from tuner.inputs import Library, gather
from tuner.ranking import Ranked, Ranking
from tuner.request import PlanRequest
from tuner.search import Search
from tuner.trials import Option
from tuner.twins import distinct, first_names

MOST_OPTIONS = 500
"""The best that are kept."""

_MOST_SIMULATED = 200
_MOST_OPERATIONS = 200_000
"""Forwards and backwards that are simulated for all options together."""


def options_of(
    request: PlanRequest,
    library: Library,
    *,
    profile: Profile | None = None,
    search: Literal["greedy", "exhaustive"] = "exhaustive",
) -> tuple[Option, ...]:
    """Every configuration that a search finds to fit, fastest first; none where nothing fits.

    What is the same run under two names is there once. The best are simulated, the others have the time of
    equation 1. Raises as `tuner.planning.answer` does.
    """
    return options_with(Evaluator(gather(request, library, profile=profile)), search=search)


def options_with(
    evaluator: Evaluator, *, search: Literal["greedy", "exhaustive"] = "exhaustive"
) -> tuple[Option, ...]:
    """The same for documents that were gathered before."""
    everything = Search(evaluator)
    found = everything.exhaustive() if search == "exhaustive" else everything.greedy()
    known = judged(Ranking(evaluator), found.fitting)
    return tuple(option_of(each) for each in distinct(known, first_names(known)))


def judged(ranking: Ranking, choices: Sequence[Choice]) -> tuple[Ranked, ...]:
    """At most MOST_OPTIONS of what fits, given in the order of equation 1, as simulated, fastest first."""
    left, found = _MOST_OPERATIONS, []
    for position, choice in enumerate(choices[:MOST_OPTIONS]):
        left -= 2 * choice.configuration.stages * choice.configuration.micro_batches
        simulated = position < _MOST_SIMULATED and left >= 0
        found.append(ranking.judge(choice) if simulated else Ranked(choice, None))
    return tuple(sorted(found, key=lambda each: (each.iteration_s, each.choice.configuration)))


def option_of(ranked: Ranked) -> Option:
    """Shares are those of equation 1: bubble, messages and collectives over the whole."""
    choice = ranked.choice
    evaluated, index, times = choice.evaluated, choice.index, choice.evaluated.times
    reserve = float(evaluated.memory.reserve_bytes[index].max())
    parts = times.bubble_s, times.p2p_s, times.all_reduce_s
    return Option(
        configuration=choice.configuration,
        predicted_s=ranked.iteration_s,
        needed_bytes=choice.peak_bytes - reserve,
        capacity_bytes=evaluated.capacity_bytes - reserve,
        shares=tuple(float(part[index]) / choice.iteration_s for part in parts),
    )
