"""How do the processes of a measurement end? With their results, or an error that says what failed."""

from typing import Any

from executor.errors import TrialError
from executor.launchers.launch import Launch
from executor.launchers.local import launch_locally
from executor.launchers.outcome import Status


def results_of(launch: Launch, *, wanted: str) -> tuple[dict[str, Any], ...]:
    """What each process of `launch` gave on this machine.

    Raises TrialError, which begins with `wanted`, if one of them fails.
    """
    outcome = launch_locally(launch)
    if outcome.status != Status.OK:
        reason = outcome.failure.message if outcome.failure else "no reason is known"
        raise TrialError(f"{wanted}: {outcome.status}, {reason}")
    return tuple(outcome.results)
