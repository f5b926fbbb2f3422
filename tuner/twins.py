"""Which configurations are one run under two names? GPipe and 1F1B of a single micro-batch, for example."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tuner.configuration import Configuration
from tuner.ranking import Ranked
from tuner.schedules.generators import find_recipe, program_of

_TIMED = frozenset({"chimera_split"})
"""Schedules whose programs depend on what operations take."""
_DIGITS = 9
"""Of the predicted time: what is predicted to differ need not be compared operation by operation."""


def first_names(ranked: Iterable[Ranked]) -> dict[Configuration, Configuration]:
    """Of every configuration the first one that runs the very same operations on the same ranks."""
    likely: dict[tuple[Any, ...], list[Configuration]] = {}
    for each in ranked:
        likely.setdefault(_key(each), []).append(each.choice.configuration)
    found: dict[Configuration, Configuration] = {}
    for group in likely.values():
        programs: dict[Any, Configuration] = {}
        for configuration in group:
            program = _operations(configuration) if len(group) > 1 else configuration
            found[configuration] = programs.setdefault(program, configuration)
    return found


def distinct(ranked: Iterable[Ranked], first: Mapping[Configuration, Configuration]) -> Iterator[Ranked]:
    """Those that stand under their first names."""
    return (each for each in ranked if first[each.choice.configuration] == each.choice.configuration)


def _key(ranked: Ranked) -> tuple[Any, ...]:
    ran = ranked.choice.configuration
    size = ran.micro_batch_size, ran.micro_batches, ran.recompute
    return ran.width, ran.depth, ran.chunks, *size, f"{ranked.iteration_s:.{_DIGITS}g}"


def _operations(configuration: Configuration) -> Any:
    """What tells programs apart; the configuration itself where they cannot be compared."""
    if configuration.schedule in _TIMED or not find_recipe(configuration.schedule).synchronous:
        return configuration
    program = program_of(configuration)
    return (program.placement.tobytes(), *(column.tobytes() for column in program.columns))
