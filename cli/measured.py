"""How does `chimera profile` measure: which model, on which device, and what is told meanwhile?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.errors import InputError, UnavailableError
from cli.progress import show

if TYPE_CHECKING:
    from executor.measuring.profiling import Plan
    from profiles.model import ModelDescription
    from profiles.timings import Profile


def measure(
    *,
    on: str,
    model: str,
    micro_batch_sizes: tuple[int, ...],
    accelerator: str | None,
    threads: int,
    processes: int,
    budget: float,
    optimizer: Any,
    seed: int,
    **shape: Any,
) -> Profile:
    """Measure on this host; raises UnavailableError where the device or the executor is not there."""
    plan = _plan(
        device=on,
        micro_batch_sizes=micro_batch_sizes,
        accelerator=_known(accelerator),
        threads=threads,
        budget_s=budget,
        optimizer=optimizer,
        seed=seed,
    )
    from executor.errors import ConfigurationError, ExecutorError
    from executor.measuring.profiling import take_profile

    try:
        if processes > 1:
            document = _side_by_side(model, plan, processes, **shape)
        else:
            opened, description, name = _open(model, seed=seed, **shape)
            document = take_profile(opened, plan, name=name, description=description, progress=show)
    except ConfigurationError as error:
        raise InputError(str(error)) from None
    except ExecutorError as error:
        raise UnavailableError(str(error)) from None
    for note in document.timings.notes:
        click.echo(f"note: {note}", err=True)
    return document


def _side_by_side(model: str, plan: Plan, processes: int, **shape: Any) -> Profile:
    """Measured by several processes at once; raises InputError for what they do not share a machine for."""
    from cli.sources import read_model
    from executor.measuring.neighbours import Crowd, take_crowded_profile
    from executor.measuring.overheard import Overheard
    from executor.models.factories import is_factory

    if plan.device != "cpu" or is_factory(model):
        raise InputError(
            f"--processes {processes} measures presets and config.json on a CPU: leave it out for a factory, "
            "or for a device that each rank has for itself"
        )
    source = read_model(model)[0]
    with Overheard(show) as overheard:
        crowd = Crowd(source, processes, **decided(source, shape), told=overheard.path)
        return take_crowded_profile(crowd, plan)


def _plan(**options: Any) -> Plan:
    try:
        from executor.measuring import environment
        from executor.measuring.profiling import Plan
    except ImportError as error:
        raise UnavailableError(
            f"measuring needs the executor: {error}. Install chimera-tuner[executor], or use --on estimate"
        ) from None
    if options["device"] == "cuda" and not environment.has_cuda():
        raise UnavailableError(
            "torch sees no CUDA device on this host; use --on cpu, or --on estimate --accelerator NAME"
        )
    return Plan(**options)


def _open(model: str, *, seed: int, **shape: Any) -> tuple[Any, ModelDescription | None, str]:
    """What to run, its description (a factory has none yet) and its name."""
    from cli.sources import read_model
    from executor.models.factories import is_factory
    from executor.models.sources import describe_model, open_model

    if is_factory(model):
        given = [f"--{key.replace('_', '-')}" for key, value in shape.items() if value is not None]
        if given:
            raise InputError(f"a factory has its own {', '.join(given)}: leave the option out")
        return open_model(model, seed=seed), None, model[-200:]
    source = read_model(model)[0]
    description = describe_model(source, **decided(source, shape))
    opened = open_model(
        source,
        sequence_length=description.sequence_length,
        precision=description.precision,
        attention=description.attention,
        seed=seed,
    )
    return opened, description, description.name


def decided(source: Any, shape: dict[str, Any]) -> dict[str, Any]:
    """The shape of what is measured: a config.json has the defaults of `chimera plan`, a preset its own."""
    from tuner.assignments import DEFAULT_ATTENTION, DEFAULT_PRECISION

    if isinstance(source, str):
        return shape
    defaults = {"precision": DEFAULT_PRECISION, "attention": DEFAULT_ATTENTION}
    return shape | {key: shape[key] or value for key, value in defaults.items()}


def _known(accelerator: str | None) -> str | None:
    from profiles import library

    return None if accelerator is None else library.load_accelerator(accelerator).name
