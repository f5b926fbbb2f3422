"""How does a recorded trace become a picture? Trace Event JSON of a run, read as columns of its operations.

A trial's trace holds what was measured and, as further processes, what had been predicted; the measured part
is read. Who wrote it is a worker: what is no such trace is refused in words.
"""

import re
from collections.abc import Iterator
from typing import Any

from tuner.errors import RequestError
from tuner.schedules.program import Kind
from tuner.timeline_document import VERSION
from tuner.traces import NAMES, PREDICTED, THREADS

MOST_EVENTS = 400_000
_KINDS = {name: kind for kind, name in NAMES.items()}
_MOST_LANES = 1_000
"""Threads of collectives on a rank."""
_NAME = re.compile(r"(update|[FBIWR])[↑↓]? \d+")
_MOST = 1_000_000
"""No rank, stage or micro-batch has a larger number."""


def recorded_document(trace: Any, *, schedule: str) -> dict[str, Any]:
    """The measured operations, as `tuner.timeline_document` gives simulated ones, from the first start on.

    What is alive is counted again, the critical path is not known. Raises RequestError for another document.
    """
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list) or len(events) > MOST_EVENTS:
        raise RequestError(
            f"the trace is no Trace Event JSON of at most {MOST_EVENTS:,} events: run the trial again"
        )
    measured = [event for event in events if _is_measured(event)]
    operations = sorted(_operations(measured), key=lambda each: (each["rank"], each["start"], each["half"]))
    if not operations:
        raise RequestError("the trace holds no measured operation: run the trial again with a trace")
    collectives = list(_collectives(measured, stages=1 + max(each["stage"] for each in operations)))
    begin = min(each["start"] for each in operations)
    for each in (*operations, *collectives):
        each["start"], each["end"] = (round((each[edge] - begin) / 1e6, 9) for edge in ("start", "end"))
    parts = _count_alive(operations)
    largest = {name: 1 + max(each[name] for each in operations) for name in ("rank", "pipe", "stage")}
    return {
        "version": VERSION,
        "schedule": schedule,
        "depth": largest["rank"],
        "pipes": largest["pipe"],
        "stages": largest["stage"],
        "chunks": 1,
        "micro_batches": 1 + max(each["micro_batch"] for each in operations),
        "iterations": 1 + max(each["iteration"] for each in operations),
        "parts": parts,
        "makespan": max(each["end"] for each in (*operations, *collectives)),
        "kinds": [member.name for member in Kind],
        "operations": _columns(
            operations, "rank", "start", "end", "kind", "pipe", "stage", "micro_batch", "half", "live"
        ),
        "collectives": _columns(collectives, "rank", "start", "end", "group"),
        "critical_path": [],
        "memory": None,
    }


def _is_measured(event: Any) -> bool:
    return (
        isinstance(event, dict)
        and event.get("ph") == "X"
        and isinstance(event.get("pid"), int)
        and 0 <= event["pid"] < PREDICTED
        and isinstance(event.get("tid"), int)
        and all(
            isinstance(event.get(edge), int | float) and 0 <= event[edge] < 1e15 for edge in ("ts", "dur")
        )
    )


def _operations(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for event in events:
        names = str(event.get("name"))[:100].split(" + ") if event["tid"] < THREADS["send"] else []
        matches = [_NAME.fullmatch(name) for name in names]
        arguments = event.get("args")
        if not matches or not all(matches) or not isinstance(arguments, dict):
            continue
        fused = len(matches) > 1
        for number, match in enumerate(filter(None, matches[:2])):
            inner = arguments.get("with") if number else arguments
            yield _times(event) | {
                "kind": int(_KINDS[match[1]]),
                "half": number + 1 if fused else 0,
                **{name: _number(inner, name) for name in ("pipe", "stage", "micro_batch", "iteration")},
            }


def _collectives(events: list[dict[str, Any]], *, stages: int) -> Iterator[dict[str, Any]]:
    for event in events:
        arguments = event.get("args")
        if not THREADS["sync"] <= event["tid"] < THREADS["sync"] + _MOST_LANES or not isinstance(
            arguments, dict
        ):
            continue
        member, _, number = str(arguments.get("group")).partition(" ")
        group = int(number) if number.isdecimal() and len(number) < len(str(_MOST)) else 0
        yield _times(event) | {"group": group if member == "stage" else stages + group}


def _times(event: dict[str, Any]) -> dict[str, Any]:
    return {"rank": event["pid"], "start": event["ts"], "end": event["ts"] + event["dur"]}


def _number(arguments: Any, name: str) -> int:
    found = arguments.get(name) if isinstance(arguments, dict) else None
    if not isinstance(found, int) or not -1 <= found < _MOST:
        raise RequestError(f"an operation of the trace has no {name}: run the trial again")
    return found


def _count_alive(operations: list[dict[str, Any]]) -> int:
    """Write down how many micro-batches are alive after each; gives how many backwards share one."""
    ends = (Kind.B, Kind.W)
    backwards: dict[tuple[int, ...], int] = {}
    for each in operations:
        if each["kind"] in ends:
            backwards[_worked_on(each)] = backwards.get(_worked_on(each), 0) + 1
    alive: dict[int, float] = {}
    for each in operations:
        now = alive.get(each["rank"], 0.0)
        if each["kind"] == Kind.F:
            now += 1
        elif each["kind"] in ends:
            now -= 1 / backwards[_worked_on(each)]
        alive[each["rank"]] = now
        each["live"] = max(0, -int(-now // 1))
    return max(backwards.values(), default=1)


def _worked_on(each: dict[str, Any]) -> tuple[int, ...]:
    return each["iteration"], each["pipe"], each["stage"], each["micro_batch"]


def _columns(entries: list[dict[str, Any]], *names: str) -> dict[str, list[Any]]:
    return {name: [each[name] for each in entries] for name in names}
