"""Which configurations of a request may be tried? All that fit, with the model's word on each."""

from profiles.timings import Profile
from tuner.choice import Choice
from tuner.evaluation import Evaluator
from tuner.inputs import Library, gather
from tuner.ranking import Ranking
from tuner.request import PlanRequest
from tuner.search import Search
from tuner.trials import Option

MOST_OPTIONS = 500
"""The best that are kept."""

_MOST_SIMULATED = 200
_MOST_OPERATIONS = 200_000
"""Forwards and backwards that are simulated for all options together."""


def options_of(
    request: PlanRequest, library: Library, *, profile: Profile | None = None
) -> tuple[Option, ...]:
    """Every configuration of the exhaustive search that fits, fastest first; none where nothing fits.

    The best are simulated, the others have the time of equation 1. Raises as `tuner.planning.answer` does.
    """
    return options_with(Evaluator(gather(request, library, profile=profile)))


def options_with(evaluator: Evaluator) -> tuple[Option, ...]:
    """The same for documents that were gathered before."""
    ranking = Ranking(evaluator)
    left, options = _MOST_OPERATIONS, []
    for position, choice in enumerate(Search(evaluator).exhaustive().fitting[:MOST_OPTIONS]):
        left -= 2 * choice.configuration.stages * choice.configuration.micro_batches
        simulated = position < _MOST_SIMULATED and left >= 0
        iteration_s = ranking.judge(choice).iteration_s if simulated else choice.iteration_s
        options.append(_option(choice, iteration_s))
    return tuple(sorted(options, key=lambda option: (option.predicted_s, option.configuration)))


def _option(choice: Choice, iteration_s: float) -> Option:
    """Shares are those of equation 1: bubble, messages and collectives over the whole."""
    evaluated, index = choice.evaluated, choice.index
    times = evaluated.times
    reserve = float(evaluated.memory.reserve_bytes[index].max())
    parts = times.bubble_s, times.p2p_s, times.all_reduce_s
    return Option(
        configuration=choice.configuration,
        predicted_s=iteration_s,
        needed_bytes=choice.peak_bytes - reserve,
        capacity_bytes=evaluated.capacity_bytes - reserve,
        shares=tuple(float(part[index]) / choice.iteration_s for part in parts),
    )
