"""How fast do several jobs run that share their ranks? One computes while another waits for its collectives.

Crossover synchronisation (arXiv 2103.07974): jobs take turns of one iteration, and a rank leaves a job's turn
where it would wait for gradients. The programs of all are merged into one (`tuner.schedules.merging`) and
simulated, so that bubbles and messages of pipelined jobs count as they fall. Beside it stands the abstract
model, for jobs that compute C and have exposed communication M: the period is max(ΣC, max(C + M)), which for
two equal jobs is a speed-up of min(1/(1 − φ), 2), φ = M/(C + M).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from profiles.timings import Profile
from tuner.configuration import Configuration
from tuner.emulation import Emulation
from tuner.enactment import configuration_of, expect, operations
from tuner.errors import RequestError, TooLongError
from tuner.inputs import Library
from tuner.operation_costs import OperationCosts
from tuner.plan import ConfigurationDocument, Plan
from tuner.plan_notes import PlanPart
from tuner.request import PlanRequest, read_request
from tuner.schedules import find_scheme
from tuner.schedules.generators import program_of
from tuner.schedules.lowering import lower
from tuner.schedules.merging import merge, merge_costs
from tuner.schedules.program import Program
from tuner.simulation import simulate

MOST_JOBS = 8
MOST_OPERATIONS = 262_144
"""Forwards and backwards of all jobs in the turns that are simulated."""
_TURNS = (3, 9)
"""The period is what a turn takes between the end of the third and of the ninth."""


@dataclass(frozen=True)
class Sharer:
    """One of the jobs that share their ranks."""

    name: str
    configuration: Configuration
    costs: OperationCosts
    plan: Plan | None = None
    """Where its memory is known."""
    emulation: Emulation | None = None
    """What its stages take where they only sleep."""


class SharingJob(PlanPart):
    """One job, alone on its ranks."""

    name: str
    configuration: ConfigurationDocument
    iteration_s: float
    exposed_s: float
    """Of it, waiting for collectives that nothing hides."""
    exposed_share: float
    """φ"""


class SharedMemory(PlanPart):
    """What all jobs take of a device together, its reserve counted once."""

    ranks_bytes: tuple[int, ...]
    capacity_bytes: int
    fits: bool


class Crossover(PlanPart):
    """Jobs that take turns on their ranks, against the same jobs one after the other."""

    schema_version: Literal[1] = 1
    jobs: tuple[SharingJob, ...]
    sequential_s: float
    """An iteration of each, one after the other."""
    period_s: float
    """An iteration of each, in turns."""
    predicted_speedup: float
    """sequential_s / period_s"""
    closed_form_speedup: float
    """By the abstract model, which knows no bubbles."""
    memory: SharedMemory | None
    """None where a job's memory is not known."""
    measured_period_s: float | None = None
    """Where the jobs were run."""
    measured_speedup: float | None = None
    """Of the jobs in turns against each alone, where they were run."""


def cross_over(jobs: Sequence[Sharer]) -> Crossover:
    """Predict what sharing gives; raises RequestError where jobs cannot share, TooLongError beyond a size."""
    _refuse(jobs)
    alone = [_describe(job) for job in jobs]
    sequential_s = sum(job.iteration_s for job in alone)
    computing = [job.iteration_s - job.exposed_s for job in alone]
    period_s = _period(jobs)
    return Crossover(
        jobs=tuple(alone),
        sequential_s=sequential_s,
        period_s=period_s,
        predicted_speedup=sequential_s / period_s,
        closed_form_speedup=sequential_s / max(sum(computing), *(job.iteration_s for job in alone)),
        memory=_memory([job.plan for job in jobs]),
    )


def sharer_of(
    name: str,
    plan: Plan,
    library: Library,
    *,
    request: PlanRequest | None = None,
    profile: Profile | None = None,
) -> Sharer:
    """The job that a plan chose, for the plan's own request unless given.

    Raises RequestError where nothing was chosen, or where the profile that was planned with is missing.
    """
    if plan.chosen is None:
        raise RequestError(f"{name}: nothing fits in this plan, so there is no job to share devices with")
    asked = plan.request.get("model")
    if profile is None and isinstance(asked, dict) and "profile" in asked:
        raise RequestError(
            f"{name} was planned with a measured profile, which the plan does not hold: plan it for a preset "
            "or a config.json to share its devices"
        )
    configuration = configuration_of(plan.chosen)
    if request is None:
        request = read_request({key: value for key, value in plan.request.items() if value is not None})
    costs = expect(request, configuration, library, profile=profile).costs
    return Sharer(name, configuration, costs, plan)


def emulated_jobs(count: int, *, exposed_share: float, compute_s: float) -> list[Sharer]:
    """Equal jobs of one stage with two replicas: C seconds of computation, and φ of an iteration exposed."""
    configuration = Configuration("dapple", width=2, depth=1, micro_batch_size=1, micro_batches=1)
    emulation = Emulation(
        forward_s=compute_s / 3,
        backward_s=2 * compute_s / 3,
        all_reduce_s=compute_s * exposed_share / (1 - exposed_share),
    )
    costs = OperationCosts.uniform(
        _program(configuration, 1),
        forward_s=emulation.forward_s,
        backward_s=emulation.backward_s,
        sync_s=emulation.all_reduce_s,
    )
    return [Sharer("", configuration, costs, emulation=emulation)] * count


def _refuse(jobs: Sequence[Sharer]) -> None:
    if not 2 <= len(jobs) <= MOST_JOBS:
        raise RequestError(f"{len(jobs)} jobs cannot share their ranks: give 2 to {MOST_JOBS}")
    shapes = {(job.configuration.width, job.configuration.depth) for job in jobs}
    if len(shapes) > 1:
        each = "; ".join(
            f"{job.name} has W={job.configuration.width} x D={job.configuration.depth}" for job in jobs
        )
        raise RequestError(
            f"jobs share their ranks one by one, and these differ: {each}. Pin --width and --depth"
        )
    for job in jobs:
        if not find_scheme(job.configuration.schedule).synchronous:
            raise RequestError(
                f"{job.name} runs {job.configuration.schedule}, which never waits for its gradients as a "
                "whole: choose a schedule with a flush"
            )
    count = _TURNS[1] * sum(operations(job.configuration) for job in jobs)
    if count > MOST_OPERATIONS:
        raise TooLongError(
            f"{_TURNS[1]} turns of these jobs are {count:,} forwards and backwards, and at most "
            f"{MOST_OPERATIONS:,} are simulated: pin larger micro-batches"
        )


def _describe(job: Sharer) -> SharingJob:
    whole_s = _period([job])
    silent = replace(job.costs, sync_s=np.zeros_like(job.costs.sync_s))
    exposed_s = max(0.0, whole_s - _period([replace(job, costs=silent)]))
    return SharingJob(
        name=job.name,
        configuration=ConfigurationDocument(**job.configuration.document()),
        iteration_s=whole_s,
        exposed_s=exposed_s,
        exposed_share=exposed_s / whole_s,
    )


def _period(jobs: Sequence[Sharer]) -> float:
    """Seconds between the turns of one job, after the first few."""
    few_s, many_s = (_makespan(jobs, turns) for turns in _TURNS)
    return (many_s - few_s) / (_TURNS[1] - _TURNS[0])


def _makespan(jobs: Sequence[Sharer], turns: int) -> float:
    programs = [_program(job.configuration, turns) for job in jobs]
    costs = [job.costs for job in jobs]
    if len(jobs) == 1:
        return simulate(programs[0], costs[0]).makespan_s
    return simulate(merge(programs), merge_costs(programs, costs)).makespan_s


def _program(configuration: Configuration, iterations: int) -> Program:
    return lower(program_of(configuration, iterations=iterations))


def _memory(plans: Sequence[Plan | None]) -> SharedMemory | None:
    """Each job keeps its own of everything but the reserve, which is the largest."""
    chosen: list[Any] = [plan.chosen.memory if plan and plan.chosen else None for plan in plans]
    known = [plan for plan in plans if plan is not None]
    if not known or None in chosen:
        return None
    used = np.sum([[rank.total_bytes - rank.reserve_bytes for rank in ranks] for ranks in chosen], axis=0)
    reserve = np.max([[rank.reserve_bytes for rank in ranks] for ranks in chosen], axis=0)
    totals = tuple((used + reserve).tolist())
    capacity = min(plan.cluster.memory_bytes for plan in known)
    return SharedMemory(ranks_bytes=totals, capacity_bytes=capacity, fits=max(totals) <= capacity)
