"""Which configuration that fits is fastest? Equation 1 sorts them all, the simulation judges the best."""

from bisect import insort
from dataclasses import dataclass
from typing import Any

from tuner.choice import Choice
from tuner.evaluation import Evaluator
from tuner.rehearsal import Rehearsal, Rehearsed

MOST_SIMULATED = 20
"""How many of the best by equation 1 are simulated."""

_SHORT = 8_192
"""Forwards and backwards of programs of which MOST_SIMULATED are simulated without counting."""

_MOST_OPERATIONS = 40_000
"""Forwards and backwards that are simulated for one list where some programs are longer."""

_TOO_LONG = 100_000
"""Forwards and backwards of a program that takes too long to simulate; equation 1 is near for so many."""

_FEWEST_SIMULATED = 2

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
        """Fastest first; the first has been simulated, unless its program is too long for that.

        `choices` are in the order of equation 1. What cannot win against the best iteration so far is not
        simulated, nor what lies beyond MOST_SIMULATED or beyond `operations`, unless it would come first.
        """
        if any(_operations(choice) > _TOO_LONG for choice in choices[:_FEWEST_SIMULATED]):
            return tuple(Ranked(choice, None) for choice in choices)
        ranked: list[Ranked] = []
        longest = max(map(_operations, choices[:MOST_SIMULATED]), default=0)
        best, left = float("inf"), operations if longest > _SHORT else MOST_SIMULATED * _SHORT
        for position, choice in enumerate(choices):
            size = _operations(choice)
            affordable = position < _FEWEST_SIMULATED or (position < MOST_SIMULATED and size <= left)
            if not affordable or choice.work_s > best or choice.iteration_s > _MOST_OVER * best:
                ranked.append(Ranked(choice, None))
                continue
            left -= size
            ranked.append(self.judge(choice))
            best = min(best, ranked[-1].iteration_s)
        return self._first_simulated(sorted(ranked, key=_order))

    def _first_simulated(self, ranked: list[Ranked]) -> tuple[Ranked, ...]:
        """Simulate what comes first by equation 1 until what comes first has been simulated."""
        while ranked and ranked[0].simulated is None and _operations(ranked[0].choice) <= _TOO_LONG:
            insort(ranked, self.judge(ranked.pop(0).choice), key=_order)
        return tuple(ranked)

    def judge(self, choice: Choice) -> Ranked:
        """One configuration, simulated."""
        key = (id(choice.evaluated), choice.index)
        if key not in self._simulated:
            self._simulated[key] = self._rehearsal.rehearse(choice.evaluated, choice.index)
        return Ranked(choice, self._simulated[key])


def _operations(choice: Choice) -> int:
    """Forwards and backwards of an iteration."""
    return 2 * choice.configuration.depth * choice.configuration.micro_batches


def _order(ranked: Ranked) -> tuple[Any, ...]:
    return ranked.iteration_s, ranked.choice.rank()
