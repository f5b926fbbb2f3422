"""`chimera crossover`: what do several jobs gain that take turns on the same devices?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.errors import DONE, NEGATIVE, InputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from executor.crossover.crossover import CrossoverRun
    from tuner.crossover import Crossover, Sharer

EXAMPLE = "chimera crossover --emulate jobs=2,phi=1/6"
_MOST_BYTES = 64 * 1024**2
_COMPUTE_S = 0.1
_KEYS = ("jobs", "phi", "compute_s")


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@click.argument("plans", nargs=-1, type=click.Path(path_type=Path), metavar="[PLAN.json]...")
@click.option(
    "--emulate", "emulated", multiple=True, metavar="KEY=VALUE,...",
    help="Equal jobs instead of plans: jobs=2, phi=1/6 (share of an iteration that waits for gradients), "
    "compute_s=0.1. May be repeated, for jobs that differ.",
)  # fmt: skip
@click.option(
    "--run",
    "running",
    is_flag=True,
    help="Measure it too: run the jobs on this machine, each alone and all in turns.",
)
@click.option("--iterations", type=click.IntRange(4, 10_000), default=20, help="Of each job that is run.")
@click.option("--timeout", type=click.FloatRange(1), default=600.0, help="Seconds that one run may take.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def crossover(
    *,
    plans: tuple[Path, ...],
    emulated: tuple[str, ...],
    running: bool,
    iterations: int,
    timeout: float,
    as_json: bool,
) -> int:
    """Predict what jobs gain that share their devices.

    One job computes while another waits for its gradients. Give plans (`chimera plan --json > PLAN.json`; one
    twice for two equal jobs) of the same W and D, or --emulate. Exit code 1 where their memory does not fit
    together.
    """
    if bool(plans) == bool(emulated):
        raise InputError("give plans (chimera plan --json > PLAN.json), or --emulate jobs=2,phi=1/6")
    jobs = _planned(plans) if plans else [job for text in emulated for job in _emulated(text)]
    from dataclasses import replace

    from tuner.crossover import cross_over

    found = cross_over([replace(job, name=f"job {number}{job.name}") for number, job in enumerate(jobs)])
    if running:
        measured = _measure(jobs, iterations=iterations, timeout_s=timeout)
        found = found.model_copy(
            update={"measured_period_s": measured.period_s, "measured_speedup": measured.measured_speedup}
        )
    if as_json:
        from profiles.document import canonical_json

        click.echo(canonical_json(found.model_dump(mode="json")))
    else:
        click.echo("\n".join(_describe(found)))
    return DONE if found.memory is None or found.memory.fits else NEGATIVE


def _planned(paths: tuple[Path, ...]) -> list[Sharer]:
    from pydantic import ValidationError

    from cli.files import read_bounded
    from profiles import library
    from profiles.document import describe_faults
    from profiles.json_text import parse_json
    from tuner.crossover import sharer_of
    from tuner.plan import Plan

    jobs = []
    for path in paths:
        value = parse_json(read_bounded(path, most=_MOST_BYTES), name=str(path))
        if isinstance(value, dict):
            value.pop("search_s", None)
        try:
            plan = Plan.model_validate(value)
        except ValidationError as error:
            raise InputError(describe_faults(error, f"{path}, which is to be a plan", value=value)) from None
        jobs.append(sharer_of(f" ({plan.model.name})", plan, library))
    return jobs


def _emulated(text: str) -> list[Sharer]:
    from tuner.crossover import MOST_JOBS, emulated_jobs

    given: dict[str, str] = {}
    for pair in text.split(","):
        name, equals, number = pair.partition("=")
        if not equals or name not in _KEYS or name in given:
            raise InputError(f"--emulate {pair!r}: write jobs=2,phi=1/6,compute_s=0.1, each name once")
        given[name] = number
    count, share = _number(given.get("jobs", "1")), _number(given.get("phi", "0"))
    compute_s = _number(given.get("compute_s", str(_COMPUTE_S)))
    if count != int(count) or not 1 <= count <= MOST_JOBS:
        raise InputError(f"--emulate jobs={count:g}: give a whole number of 1 to {MOST_JOBS}")
    if not 0 <= share < 1:
        raise InputError(f"--emulate phi={share:g}: a share of an iteration is at least 0 and below 1")
    if not 0 < compute_s <= 1e6:
        raise InputError(f"--emulate compute_s={compute_s:g}: give seconds above 0, at most 1e6")
    return emulated_jobs(int(count), exposed_share=share, compute_s=compute_s)


def _measure(jobs: list[Sharer], *, iterations: int, timeout_s: float) -> CrossoverRun:
    try:
        from executor.crossover.crossover import run_crossover
        from executor.errors import ConfigurationError, ExecutorError, ModelError
        from executor.trials.trial_request import read_trial
    except ImportError as error:
        raise UnavailableError(
            f"running jobs needs the executor: {error}. Install chimera-tuner[executor]"
        ) from None
    how = {"iterations": iterations, "timeout_s": timeout_s}
    try:
        run = run_crossover([read_trial(_trial(job) | how) for job in jobs])
    except (ConfigurationError, ModelError) as error:
        raise InputError(str(error)) from None
    except ExecutorError as error:
        raise UnavailableError(str(error)) from error
    if run.period_s is None or run.measured_speedup is None:
        ends = [trial.outcome for trial in (*run.trials, *run.solo) if trial.status != "ok"]
        reasons = {end.failure.message if end.failure else str(end.status) for end in ends}
        raise UnavailableError(f"not every job ran to its end: {'; '.join(sorted(reasons)) or 'too short'}")
    if not run.quiet:
        click.echo("note: the machine was not quiet, so the measured speed-up may be off", err=True)
    return run


def _trial(job: Sharer) -> dict[str, Any]:
    """What `chimera run` would be asked for a job."""
    asked = {key: value for key, value in job.configuration.document().items() if key != "chunks"}
    if job.emulation is not None:
        return asked | {"emulate": job.emulation.model_dump()}
    if job.plan is None or job.plan.chosen is None:
        raise InputError("there is no plan to run")
    request = job.plan.request
    known = ("model", "sequence_length", "precision", "optimizer", "optimizer_sharding")
    return (
        asked
        | {name: request[name] for name in known if request.get(name) is not None}
        | {"partition": job.plan.chosen.stage_layers, "chunks": job.configuration.chunks}
    )


def _number(text: str) -> float:
    from fractions import Fraction

    try:
        return float(Fraction(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InputError(f"--emulate: {text[:40]!r} is not a number such as 2, 0.2 or 1/6") from None


def _describe(found: Crossover) -> Iterator[str]:
    from cli.quantities import gigabytes, percent, seconds, table

    rows = [
        [job.name, seconds(job.iteration_s), seconds(job.exposed_s), percent(job.exposed_share)]
        for job in found.jobs
    ]
    yield from table(["alone", "iteration", "waits for gradients", "share"], rows, indent=0)
    yield ""
    yield f"One after the other  {seconds(found.sequential_s)} for an iteration of each"
    yield f"In turns             {seconds(found.period_s)}: {found.predicted_speedup:.3f} times as fast"
    if found.measured_period_s is not None:
        gain = f"{found.measured_speedup:.3f} times as fast as each alone"
        yield f"Measured             {seconds(found.measured_period_s)}: {gain}"
    if found.memory is not None:
        most, capacity = gigabytes(max(found.memory.ranks_bytes)), gigabytes(found.memory.capacity_bytes)
        verdict = "fits" if found.memory.fits else "does not fit: use smaller micro-batches or recomputation"
        yield f"Memory               {most} of {capacity} on the fullest rank: {verdict}"
