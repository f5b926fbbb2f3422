"""How is a trial told to people? How it ended, what it took beside the prediction, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cli.quantities import gigabytes, percent, seconds

if TYPE_CHECKING:
    from executor.trials.trial import Trial

_NEXT = {
    "ok": "Next: --trace FILE writes both timelines; --json has every number.",
    "out_of_memory": "Next: take less memory with a smaller --micro-batch-size, or --recompute layer.",
    "failed": "Next: read the end of the log above; --json has all that is known.",
    "lost": "Next: nothing is known of this configuration; see to what is said above, and run it again.",
    "timed_out": "Next: look at what that rank waits for, or allow more with --timeout.",
}


def describe_trial(trial: Trial) -> Iterator[str]:
    """Lines for a terminal."""
    told = trial.document()
    request = trial.prepared.request
    word = trial.status.replace("_", " ")
    yield f"{trial.prepared.configuration}: {word} after {seconds(told['elapsed_s'])}."
    failure = trial.outcome.failure
    if failure is not None:
        yield f"  {failure.message}"
        yield from (f"  | {line}" for line in failure.log.splitlines()[-12:])
    if told["measured_iteration_s"]:
        yield from _times(told, iterations=request.iterations)
        fullest = max(range(len(trial.ranks)), key=lambda rank: told["peak_memory_bytes"][rank])
        taken = gigabytes(told["peak_memory_bytes"][fullest])
        yield f"  memory      rank {fullest} took most, {taken} beside Python and torch"
    if told["check"]:
        yield _check(told["check"])
    yield _NEXT["lost" if failure is not None and failure.lost else str(trial.status)]


def _times(told: dict[str, Any], *, iterations: int) -> Iterator[str]:
    measured = told["measured_iteration_s"]
    counted = f"{told['iterations_kept']} of {iterations} undisturbed"
    if told["machine_quiet"] is None:
        counted = f"{iterations} of them; how quiet the nodes were is not known"
    yield (
        f"  iteration   {seconds(measured['median'])} (10 % below {seconds(measured['p10'])}, "
        f"90 % below {seconds(measured['p90'])}), {counted}"
    )
    if told["machine_quiet"] is False:
        yield "              the machine was not quiet: do not compare this with a prediction"
    for name, word in (("predicted_iteration_s", "predicted"), ("ideal_iteration_s", "ideal")):
        if told[name]:
            over = measured["median"] / told[name] - 1
            side = "over" if over >= 0 else "under"
            yield f"  {word:<11} {seconds(told[name])}; the measured one is {percent(abs(over))} {side} it"


def _check(check: dict[str, Any]) -> str:
    word = "equals one process" if check["passed"] else "DIFFERS from one process"
    return (
        f"  check       {word}: gradients to {check['max_gradient_error']:.3g}, weights to "
        f"{check['max_weight_error']:.3g}, losses to {check['loss_error']:.3g}"
    )
