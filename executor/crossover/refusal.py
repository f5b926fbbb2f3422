"""Which jobs cannot take turns on the same ranks?"""

from __future__ import annotations

from collections.abc import Sequence

from executor.errors import ConfigurationError
from executor.trials.trial_request import MAX_LOCAL_RANKS, TrialRequest
from tuner.schedules.generators import find_recipe

FEWEST_ITERATIONS = 4
"""Timed ones: at the first and the last not all jobs are running."""


def refuse_unequal(requests: Sequence[TrialRequest]) -> None:
    """Raises ConfigurationError where such jobs cannot take turns."""
    if not requests:
        raise ConfigurationError("there is no job to run: give at least one")
    ranks, devices = [request.ranks for request in requests], [request.device for request in requests]
    if len(set(ranks)) > 1 or len(set(devices)) > 1:
        raise ConfigurationError(
            f"jobs take turns on the same ranks, and these have {ranks} ranks on {devices}: give all of them "
            "as many, on the same kind of device"
        )
    if sum(ranks) > MAX_LOCAL_RANKS:
        raise ConfigurationError(
            f"{len(ranks)} jobs of {ranks[0]} ranks are {sum(ranks)} processes; {MAX_LOCAL_RANKS} is the "
            "most on one machine"
        )
    for number, request in enumerate(requests):
        _refuse_job(f"job {number}", request)


def _refuse_job(job: str, request: TrialRequest) -> None:
    if not find_recipe(request.schedule).synchronous:
        raise ConfigurationError(
            f"{job} runs {request.schedule}, which never waits for all of its gradients, and so never leaves "
            "its turn: choose a synchronous schedule"
        )
    if request.launcher != "local":
        raise ConfigurationError(f"{job} is for {request.launcher}: jobs that take turns run on one machine")
    if request.check:
        raise ConfigurationError(
            f"{job} asks for a check, which would compute outside its turns: run it alone to check it"
        )
    if request.iterations < FEWEST_ITERATIONS:
        raise ConfigurationError(
            f"{job} times {request.iterations} iterations; the first and the last do not count: ask for at "
            f"least {FEWEST_ITERATIONS}"
        )
