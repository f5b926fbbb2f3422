"""Which configuration that fits is fastest? Equation 1 sorts them all, the simulation judges the best."""

from bisect import insort
from collections import Counter
from dataclasses import dataclass, replace
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

_OF_EACH_SCHEDULE = 2
"""Equation 1 compares layouts of one schedule better than schedules, so the best of each are tried."""

MOST_OVER = 1.35
"""Equation 1 was at most 22 % above the simulation where both were tried; what lies beyond is left out."""


@dataclass(frozen=True)
class Ranked:
    """A configuration with its simulated iteration, where it was simulated."""

    choice: Choice
    simulated: Rehearsed | None
    factor: float = 1.0
    """By which trials correct the model's time, all parts of it alike."""

    @property
    def iteration_s(self) -> float:
        """Time of an iteration: simulated, else by equation 1; corrected by trials."""
        return self.factor * (self.simulated.iteration_s if self.simulated else self.choice.iteration_s)


class Ranking:
    """Ranks the configurations of one request; each is simulated at most once."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._rehearsal = Rehearsal(evaluator)
        self._simulated: dict[tuple[int, int], Rehearsed] = {}
        self._apart: dict[tuple[int, int], Rehearsed] = {}

    def rank(self, choices: tuple[Choice, ...], *, operations: int = _MOST_OPERATIONS) -> tuple[Ranked, ...]:
        """Fastest first; the first has been simulated, unless its program is too long for that.

        `choices` are in the order of equation 1. The best of every schedule and the best of all are
        simulated, MOST_SIMULATED together and within `operations`, and whatever else would come first. What
        cannot win against the best iteration so far is left out.
        """
        if any(_operations(choice) > _TOO_LONG for choice in choices[:_FEWEST_SIMULATED]):
            return tuple(Ranked(choice, None) for choice in choices)
        tried = _to_try(choices)
        longest = max((_operations(choice) for choice in tried), default=0)
        best, left = float("inf"), operations if longest > _SHORT else MOST_SIMULATED * _SHORT
        ranked: list[Ranked] = []
        for position, choice in enumerate(tried):
            size = _operations(choice)
            affordable = position < _FEWEST_SIMULATED or size <= left
            if not affordable or choice.work_s > best or choice.iteration_s > MOST_OVER * best:
                ranked.append(Ranked(choice, None))
                continue
            left -= size
            ranked.append(self.judge(choice))
            best = min(best, ranked[-1].iteration_s)
        taken = set(map(_key, tried))
        ranked += [Ranked(choice, None) for choice in choices if _key(choice) not in taken]
        return self._first_simulated(sorted(ranked, key=_order))

    def _first_simulated(self, ranked: list[Ranked]) -> tuple[Ranked, ...]:
        """Simulate what comes first by equation 1 until what comes first has been simulated."""
        while ranked and ranked[0].simulated is None and _operations(ranked[0].choice) <= _TOO_LONG:
            insort(ranked, self.judge(ranked.pop(0).choice), key=_order)
        return (*map(self._taken_apart, ranked[:1]), *ranked[1:])

    def _taken_apart(self, ranked: Ranked) -> Ranked:
        """The winner with its parts told apart, once for all lists that it wins."""
        key = _key(ranked.choice)
        if ranked.simulated is None:
            return ranked
        if key not in self._apart:
            evaluated, index = ranked.choice.evaluated, ranked.choice.index
            self._apart[key] = self._rehearsal.take_apart(ranked.simulated, evaluated, index)
        return Ranked(ranked.choice, self._apart[key])

    def settle(self, ranked: Ranked) -> Ranked:
        """The same, simulated unless its program is too long for that."""
        if ranked.simulated is not None or _operations(ranked.choice) > _TOO_LONG:
            return ranked
        return replace(ranked, simulated=self.judge(ranked.choice).simulated)

    def judge(self, choice: Choice) -> Ranked:
        """One configuration, simulated."""
        key = _key(choice)
        if key not in self._simulated:
            self._simulated[key] = self._rehearsal.rehearse(choice.evaluated, choice.index)
        return Ranked(choice, self._simulated[key])


def _to_try(choices: tuple[Choice, ...]) -> list[Choice]:
    """What is simulated, in the order of equation 1: the best two of every schedule, then the best of all."""
    seen: Counter[str] = Counter()
    leaders: list[Choice] = []
    others: list[Choice] = []
    for choice in choices:
        schedule = choice.evaluated.variant.scheme.name
        seen[schedule] += 1
        (leaders if seen[schedule] <= _OF_EACH_SCHEDULE else others).append(choice)
    tried = leaders[:MOST_SIMULATED] + others[: max(0, MOST_SIMULATED - len(leaders))]
    return sorted(tried, key=Choice.rank)


def _key(choice: Choice) -> tuple[int, int]:
    """Tells choices of one request apart without comparing their arrays."""
    return id(choice.evaluated), choice.index


def _operations(choice: Choice) -> int:
    """Forwards and backwards of an iteration."""
    return 2 * choice.configuration.depth * choice.configuration.micro_batches


def _order(ranked: Ranked) -> tuple[Any, ...]:
    return ranked.iteration_s, ranked.choice.rank()
