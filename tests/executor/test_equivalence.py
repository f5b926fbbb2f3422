"""Do all synchronous schedules learn what one process learns, to rounding?"""

from collections.abc import Iterator

import pytest

from tests.executor.equivalence import SAMPLES, Case, assert_equal, run_cases
from tests.executor.processes import run_ranks
from tuner.configuration import Configuration, Scaling
from tuner.errors import ScheduleError
from tuner.schedules.generators import RECIPES, generate

SYNCHRONOUS = tuple(name for name, recipe in RECIPES.items() if recipe.synchronous)
MICRO_BATCHES = (1, 2, 3, 4, 8)
VARIANTS: tuple[tuple[Scaling, int], ...] = (("direct", 1), ("doubling", 1), ("halving", 1), ("direct", 2))


def grid(depth: int, width: int) -> Iterator[Configuration]:
    """Every synchronous schedule with every number of micro-batches, Chimera in all its forms."""
    for name in SYNCHRONOUS:
        for micro_batches in MICRO_BATCHES:
            for scaling, pairs in VARIANTS if name == "chimera" else VARIANTS[:1]:
                yield Configuration(
                    schedule=name,
                    width=width,
                    depth=depth,
                    micro_batch_size=SAMPLES // (micro_batches * width),
                    micro_batches=micro_batches,
                    scaling=scaling,
                    pipe_pairs=pairs,
                    chunks=RECIPES[name].chunks,
                )


def refusal(configuration: Configuration) -> str | None:
    """Why a schedule cannot run that way; None where it can."""
    try:
        generate(
            configuration.schedule,
            depth=configuration.depth,
            micro_batches=configuration.micro_batches,
            scaling=configuration.scaling,
            pipe_pairs=configuration.pipe_pairs,
        )
    except ScheduleError as error:
        return f"ScheduleError: {error}"
    return None


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("depth", "width"), [(1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2)])
def test_every_synchronous_schedule_learns_what_one_process_learns(depth: int, width: int) -> None:
    """Losses, gradients and weights after two steps, within 1e-12; what is illegal, every rank refuses."""
    cases = [Case(configuration) for configuration in grid(depth, width)]
    found = run_ranks(depth * width, run_cases, cases, timeout=360.0)
    expected = [refusal(case.configuration) for case in cases]
    for ranks in found:
        assert [one.refused for one in ranks] == [reason or "" for reason in expected]
    legal = [number for number, reason in enumerate(expected) if reason is None]
    assert_equal([cases[n] for n in legal], [[ranks[n] for n in legal] for ranks in found])
