"""The programs of every schedule; adding one is a module and a line in `tuner.schedule_names`."""

from importlib import import_module

from tuner.configuration import Configuration, Scaling
from tuner.errors import ScheduleError
from tuner.schedule_names import SCHEDULES, called_here
from tuner.schedules.generators.recipe import Ranks, Recipe, StageTimes, Variant
from tuner.schedules.program import Op, Program, Step

__all__ = ["RECIPES", "Recipe", "StageTimes", "find_recipe", "generate", "program_of"]

RECIPES: dict[str, Recipe] = {name: import_module(f"{__name__}.{name}").RECIPE for name in SCHEDULES}


def generate(
    scheme: str,
    *,
    depth: int,
    micro_batches: int,
    scaling: Scaling = "direct",
    pipe_pairs: int = 1,
    chunks: int | None = None,
    pending: int | None = None,
    iterations: int = 1,
    times: StageTimes | None = None,
) -> Program:
    """The compute operations of every rank; raises ScheduleError where the schedule cannot run that way.

    `chunks` is the scheme's own unless given, `pending` is D/2; `times` are one for every part unless given.
    """
    recipe = find_recipe(scheme)
    given = {
        "scaling": scaling != "direct",
        "pipe_pairs": pipe_pairs != 1,
        "chunks": chunks is not None,
        "pending": pending is not None,
        "times": times is not None,
    }
    for option, is_given in given.items():
        if is_given and option not in recipe.options:
            takers = ", ".join(name for name, other in RECIPES.items() if option in other.options)
            raise ScheduleError(f"{scheme} has no option {option}: leave it out, or choose from {takers}")
    variant = Variant(
        depth=depth,
        micro_batches=micro_batches,
        scaling=scaling,
        pipe_pairs=pipe_pairs,
        chunks=recipe.chunks if chunks is None else chunks,
        pending=max(1, depth // 2) if pending is None else pending,
        iterations=iterations,
        times=times,
    )
    _refuse_illegal(recipe, variant)
    return _program(recipe, variant)


def program_of(
    configuration: Configuration, *, iterations: int = 1, times: StageTimes | None = None
) -> Program:
    """`generate` for a configuration."""
    takes_chunks = "chunks" in find_recipe(configuration.schedule).options
    return generate(
        configuration.schedule,
        depth=configuration.depth,
        micro_batches=configuration.micro_batches,
        scaling=configuration.scaling,
        pipe_pairs=configuration.pipe_pairs,
        chunks=configuration.chunks if takes_chunks else None,
        iterations=iterations,
        times=times,
    )


def find_recipe(scheme: str) -> Recipe:
    """The recipe of that name; raises ScheduleError."""
    if scheme not in RECIPES:
        raise ScheduleError(
            f"there is no schedule {scheme}{called_here(scheme)}: choose from {', '.join(RECIPES)}"
        )
    return RECIPES[scheme]


def _refuse_illegal(recipe: Recipe, variant: Variant) -> None:
    for name in ("depth", "micro_batches", "pipe_pairs", "chunks", "pending", "iterations"):
        value = getattr(variant, name)
        if value < 1:
            raise ScheduleError(f"{recipe.name} with {name} = {value}: {name} must be at least 1")
    reason = recipe.illegal(variant) if recipe.illegal else None
    if reason is not None:
        raise ScheduleError(f"{recipe.name} with D = {variant.depth}, N = {variant.micro_batches}: {reason}")


def _program(recipe: Recipe, variant: Variant) -> Program:
    ranks = recipe.steps(variant)
    if recipe.synchronous and variant.iterations > 1:
        ranks = _repeated(ranks, variant.iterations)
    return Program(
        scheme=recipe.name,
        depth=variant.depth,
        micro_batches=variant.micro_batches,
        placement=recipe.placement(variant),
        ranks=ranks,
        chunks=variant.chunks,
        iterations=variant.iterations,
        synchronous=recipe.synchronous,
        updates=recipe.updates,
    )


def _repeated(ranks: Ranks, iterations: int) -> Ranks:
    """One iteration after another: each reads the weights that the one before has made."""
    return [[_in_iteration(step, i) for i in range(iterations) for step in row] for row in ranks]


def _in_iteration(step: Step, iteration: int) -> Step:
    return tuple(Op(*op[:6], version=iteration, iteration=iteration) for op in step)
