"""What does that mean which the supervisor saw? Its document as an Outcome, in words with the numbers."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from executor.launchers.failure import Meaning
from executor.launchers.launch import Launch
from executor.launchers.outcome import Failure, OperationAt, Outcome, Status, signal_name
from executor.launchers.watchdog import Cause, Limits
from tuner.schedules.program import Collective, Kind, Op

Document = dict[str, Any]


def read_findings(told: Document, launch: Launch) -> Outcome:
    """The outcome of a launch that its supervisor answered."""
    elapsed_s = float(told["elapsed_s"])
    if "ended" in told:
        return _ended(told, elapsed_s)
    results = told["agent"].get("results")
    if told["verdict"] is None and results is not None:
        return Outcome(Status.OK, elapsed_s, tuple(json.loads(result) for result in results))
    rank = told["rank"]
    if rank is None:
        status, failure = _nothing_began(told, launch)
    else:
        status, failure = _rank_failed(told, launch, rank)
    return Outcome(status, elapsed_s, failure=failure)


def _ended(told: Document, elapsed_s: float) -> Outcome:
    """What a cluster ended, or did not begin, says nothing of the configuration."""
    status = Status(told["ended"]["status"])
    lost = status != Status.OUT_OF_MEMORY
    return Outcome(
        status,
        elapsed_s,
        failure=Failure(
            told["ended"]["message"], None, log=told["ended"]["log"] or told.get("log", ""), lost=lost
        ),
    )


def _nothing_began(told: Document, launch: Launch) -> tuple[Status, Failure]:
    if told["verdict"] is not None:
        message = (
            f"no rank of {launch.ranks} had begun after {told['verdict']['waited_s']:.1f} s; the machine may "
            "be too busy: try again, or allow more time"
        )
        return Status.TIMED_OUT, Failure(message, None, log=told["log"], lost=True)
    code, number = _how_it_ended(told["agent"]["status"])
    ended = f"by {number}" if number else f"with exit code {code}"
    message = f"the process that starts the ranks ended {ended} before any had begun; its log says why"
    return Status.FAILED, Failure(message, None, exit_code=code, signal=number, log=told["log"], lost=True)


def _rank_failed(told: Document, launch: Launch, rank: int) -> tuple[Status, Failure]:
    seen = told["ranks"][rank]
    verdict = told["verdict"] or {"cause": Cause.GONE, "waited_s": 0.0}
    operation, activity, cause = _operation(seen["note"]), seen["activity"], Cause(verdict["cause"])
    host = f" on {seen['host']}" if seen.get("host") else ""
    where = f"rank {rank} of {launch.ranks}{host}" + _place(operation, activity)
    code = name = exception = requested = None
    status = Status.FAILED
    if cause == Cause.REPORTED:
        report = seen["report"]
        exception, requested = report["exception"], report["bytes"]
        code = report.get("exit_code", 1)
        status, message = _reported(report, where, launch)
    elif cause == Cause.GONE and seen.get("lost"):
        message = f"{where} was lost: {seen['lost']}"
    elif cause == Cause.GONE:
        code, name = _exit_of(told, rank)
        status, message = _gone(told, where, code=code, name=name)
    else:
        status, message = (
            Status.TIMED_OUT,
            _stood_still(cause, where, verdict["waited_s"], limits=launch.limits),
        )
    return status, Failure(
        message=message,
        rank=rank,
        operation=operation,
        activity=activity,
        exception=exception,
        exit_code=code,
        signal=name,
        requested_bytes=requested,
        limit_bytes=launch.memory_limit_bytes if status == Status.OUT_OF_MEMORY else None,
        log=told["log"],
        lost=cause == Cause.GONE and (bool(seen.get("lost")) or name == signal.Signals.SIGKILL.name),
        others=tuple(i for i, other in enumerate(told["ranks"]) if i != rank and other["state"] == "failed"),
    )


def _reported(report: Document, where: str, launch: Launch) -> tuple[Status, str]:
    said = f"{report['exception']}: {report['message']}" if report["message"] else report["exception"]
    if report["meaning"] == Meaning.OUT_OF_MEMORY:
        asked = f" when it asked for {report['bytes']:,} bytes" if report["bytes"] else ""
        limit = launch.memory_limit_bytes
        allowed = f"; it may take {limit:,} bytes beyond its start" if limit is not None else ""
        return Status.OUT_OF_MEMORY, f"{where} ran out of memory{asked}{allowed} ({said})"
    return Status.FAILED, f"{where} failed: {said}"


def _gone(told: Document, where: str, *, code: int | None, name: str | None) -> tuple[Status, str]:
    if name == signal.Signals.SIGKILL.name and told["oom_kills"] > 0:
        kills = told["oom_kills"]
        return Status.OUT_OF_MEMORY, (
            f"{where} was killed by the kernel, which ran out of memory and killed {kills} process(es) "
            "during the run: use less memory or a machine with more"
        )
    if name == signal.Signals.SIGKILL.name:
        return Status.FAILED, (
            f"{where} was killed by SIGKILL, not by this program; the kernel counts no kill for want of "
            "memory: somebody, or a limit outside, ended it"
        )
    if name is not None:
        return Status.FAILED, f"{where} was ended by {name}; its log may say why"
    if code is not None:
        return Status.FAILED, f"{where} left with exit code {code} before its work was done"
    return Status.FAILED, f"{where} ended before its work was done, how is not known; its log may say why"


def _stood_still(cause: Cause, where: str, waited_s: float, *, limits: Limits) -> str:
    if cause == Cause.STOPPED:
        return (
            f"{where} was stopped (SIGSTOP) for {waited_s:.1f} s, more than {limits.stopped_s:g} s: resume it"
        )
    if cause == Cause.START_UP:
        return f"{where} had not begun {waited_s:.1f} s after the launch; {limits.start_up_s:g} s are allowed"
    if cause == Cause.SILENT:
        return (
            f"{where} has been there for {waited_s:.1f} s, and no rank went on for more than "
            f"{limits.silence_s:g} s: it hangs, or its operation takes longer than that"
        )
    return (
        f"the run took more than {limits.timeout_s:g} s; {where} has been there for {waited_s:.1f} s: allow "
        "more time, or run less"
    )


def _place(operation: OperationAt | None, activity: str) -> str:
    if operation is not None:
        return f", at operation {operation.index}, {operation.text}, of iteration {operation.iteration},"
    return f", {activity}," if activity else ""


def _operation(note: list[int] | None) -> OperationAt | None:
    if note is None:
        return None
    _, index, kind, *numbers, collective = note
    op = Op._make([Kind(kind), *numbers, Collective(collective)])
    return OperationAt(index, str(op), op.kind.name, op.pipe, op.stage, op.micro_batch, op.iteration)


def _exit_of(told: Document, rank: int) -> tuple[int | None, str | None]:
    """Exit code or signal, from the parent of the process, or from the agent if no process had begun."""
    status = told["ranks"][rank]["wait_status"]
    if status is not None:
        return _how_it_ended(status)
    code = told["agent"].get("exit_codes", {}).get(str(rank))
    if code is None:
        return None, None
    return (None, signal_name(-code)) if code < 0 else (code, None)


def _how_it_ended(status: int | None) -> tuple[int | None, str | None]:
    """A wait status as exit code or signal."""
    if status is None:
        return None, None
    if os.WIFSIGNALED(status):
        return None, signal_name(os.WTERMSIG(status))
    return os.WEXITSTATUS(status), None
