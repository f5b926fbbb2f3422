"""Which configuration that fits is fastest? Equation 1 sorts them all, the simulation judges the best."""

from dataclasses import dataclass

from tuner.choice import Choice
from tuner.evaluation import Evaluator
from tuner.rehearsal import Rehearsal, Rehearsed

MOST_SIMULATED = 20
"""How many of the best by equation 1 are simulated."""

_SHORT = 8_192
"""Forwards and backwards up to which a program is simulated whatever the others cost."""

_MOST_OPERATIONS = 40_960
"""Forwards and backwards of the longer programs that are simulated for one list."""

_TOO_LONG = 100_000
"""Forwards and backwards of a program that takes too long to simulate; equation 1 is near for so many."""

_FEWEST_SIMULATED = 3

_MOST_OVER = 1.25
"""Equation 1 is at most 16 % above the simulation: what it puts this far behind cannot win."""


@dataclass(frozen=True)
class Ranked:
    """A configuration with its simulated iteration, where it was simulated."""

    choice: Choice
    simulated: Rehearsed | None

    @property
    def iteration_s(self) -> float:
        """Time of an iteration: simulated, else by equation 1."""
        return self.simulated.iteration_s if self.simulated else self.choice.iteration_s


class Ranking:
    """Ranks the configurations of one request; each is simulated at most once."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._rehearsal = Rehearsal(evaluator)
        self._simulated: dict[tuple[int, int], Rehearsed] = {}

    def rank(self, choices: tuple[Choice, ...], *, operations: int = _MOST_OPERATIONS) -> tuple[Ranked, ...]:
        """The simulated ones first, fastest first, then the others in the order of equation 1.

        `choices` are in that order. What cannot win against the best iteration so far is not simulated, nor
        what lies beyond MOST_SIMULATED or beyond `operations`.
        """
        if any(_operations(choice) > _TOO_LONG for choice in choices[:_FEWEST_SIMULATED]):
            return tuple(Ranked(choice, None) for choice in choices)
        best, left = float("inf"), operations
        ranked: list[Ranked] = []
        for position, choice in enumerate(choices):
            size = _operations(choice)
            affordable = position < MOST_SIMULATED and (
                size <= _SHORT or size <= left or position < _FEWEST_SIMULATED
            )
            if not affordable or choice.work_s > best or choice.iteration_s > _MOST_OVER * best:
                ranked.append(Ranked(choice, None))
                continue
            left -= size if size > _SHORT else 0
            ranked.append(self.judge(choice))
            best = min(best, ranked[-1].iteration_s)
        return tuple(sorted(ranked, key=_order))

    def judge(self, choice: Choice) -> Ranked:
        """One configuration, simulated."""
        key = (id(choice.evaluated), choice.index)
        if key not in self._simulated:
            self._simulated[key] = self._rehearsal.rehearse(choice.evaluated, choice.index)
        return Ranked(choice, self._simulated[key])


def _operations(choice: Choice) -> int:
    """Forwards and backwards of an iteration."""
    return 2 * choice.configuration.depth * choice.configuration.micro_batches


def _order(ranked: Ranked) -> tuple[bool, float, tuple[object, ...]]:
    return ranked.simulated is None, ranked.iteration_s, ranked.choice.rank()
