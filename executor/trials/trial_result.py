"""What does a run tell of its trial? As the document that workers send and studies learn from."""

from __future__ import annotations

import platform
import signal
from importlib.metadata import version
from typing import Any

from executor.launchers.outcome import Failure
from executor.trials.trial import Trial as Run
from tuner.assignments import Spread, TrialResult

_LONGEST_MESSAGE = 4_000
_LONGEST_OPERATION = 200


def result_of(run: Run) -> TrialResult:
    """What a run gave, its memory counted from nothing, as a plan counts it."""
    told, failure = run.document(), run.outcome.failure
    spread = told["measured_iteration_s"]
    return TrialResult(
        status=run.status.value,
        measured_iteration_s=Spread(**spread) if spread else None,
        peak_memory_bytes=tuple(rank["peak_bytes"] for rank in told["memory"]),
        software=f"torch {version('torch')}, python {platform.python_version()}",
        elapsed_s=run.outcome.elapsed_s,
        iterations_kept=sum(run.kept) if run.kept else None,
        machine_quiet=run.quiet if run.ranks else None,
        **(_told(failure) if failure else {}),
    )


def _told(failure: Failure) -> dict[str, Any]:
    operation = failure.operation
    text = operation.text if operation else failure.activity
    return {
        "rank": failure.rank,
        "operation": text[:_LONGEST_OPERATION] or None,
        "micro_batch": operation.micro_batch if operation and operation.micro_batch >= 0 else None,
        "wanted_bytes": failure.requested_bytes,
        "exit_code": failure.exit_code,
        "signal": _signal_number(failure.signal),
        "message": failure.message[:_LONGEST_MESSAGE] or None,
    }


def _signal_number(name: str | None) -> int | None:
    """The number behind `executor.launchers.outcome.signal_name`."""
    if name is None:
        return None
    known = signal.Signals.__members__.get(name)
    return int(known) if known else int(name.rpartition(" ")[2])
