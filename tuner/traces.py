"""How does Perfetto or chrome://tracing read a timeline? As Trace Event JSON, a process for each rank.

Threads: compute, send, receive, sync. What overlaps on one of them (messages on their way at once,
collectives side by side) continues on further threads of the same name. Arrows lead from a send to its
receive.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from tuner.schedules.compiled import NONE
from tuner.schedules.program import Collective, Kind, Program
from tuner.timeline import Floats, Timeline
from tuner.timeline_lanes import lanes

Event = dict[str, Any]

THREADS = {"compute": 0, "send": 1000, "receive": 2000, "sync": 3000}
"""Number of each thread; further ones of the same name count on."""
PREDICTED = 1000
"""Added to the number of a rank for what was predicted, where a trace holds what was measured too."""

NAMES = {Kind.B: "B", Kind.F: "F", Kind.I: "I", Kind.W: "W", Kind.RECOMPUTE: "R", Kind.UPDATE: "update"}


def trace_json(timeline: Timeline) -> str:
    """The document, an event on each line; times in microseconds, costs being seconds."""
    lines = (json.dumps(event, separators=(",", ":")) for event in trace_events(timeline))
    return '{"displayTimeUnit":"ms","traceEvents":[\n' + ",\n".join(lines) + "\n]}\n"


def trace_events(timeline: Timeline) -> Iterator[Event]:
    """Names of the threads, what the ranks compute, their messages, and their collectives."""
    events = [*_computed(timeline), *_messages(timeline), *_collectives(timeline)]
    yield from _thread_names(timeline.compiled.program.depth, events)
    yield from events


def _computed(timeline: Timeline) -> Iterator[Event]:
    compiled = timeline.compiled
    program = compiled.program
    kind = program.columns.kind[compiled.first]
    start, length = _microseconds(timeline.start_s, timeline.end_s)
    shown = np.flatnonzero(timeline.computes & ((kind != Kind.UPDATE) | (timeline.end_s > timeline.start_s)))
    for event, rank, row, other in zip(
        shown.tolist(),
        compiled.rank[shown].tolist(),
        compiled.first[shown].tolist(),
        compiled.second[shown].tolist(),
        strict=True,
    ):
        name, arguments = _operation(program, row)
        if other != NONE:
            second, inner = _operation(program, other)
            name, arguments = f"{name} + {second}", arguments | {"with": inner}
        yield _complete(name, rank, THREADS["compute"], at=start[event], length=length[event], args=arguments)


def _messages(timeline: Timeline) -> Iterator[Event]:
    """From leaving to arriving, on the sender's and the receiver's side."""
    transfers, program = timeline.compiled.transfers, timeline.compiled.program
    left, arrival = timeline.left_s, timeline.arrival_s
    start, length = _microseconds(left, arrival)
    sides = [
        ("send", transfers.source.tolist(), lanes(left, arrival, transfers.source).tolist()),
        ("receive", transfers.target.tolist(), lanes(left, arrival, transfers.target).tolist()),
    ]
    for number, row in enumerate(transfers.row.tolist()):
        what = "activation" if transfers.forward[number] else "gradient"
        arguments = _arguments(program, row) | {"from": sides[0][1][number], "to": sides[1][1][number]}
        for side, ranks, lane in sides:
            thread = THREADS[side] + lane[number]
            yield _complete(
                f"{what} {arguments['micro_batch']}", ranks[number], thread,
                at=start[number], length=length[number], args=arguments,
            ) | {"bind_id": hex(number + 1), "flow_out" if side == "send" else "flow_in": True}  # fmt: skip


def _collectives(timeline: Timeline) -> Iterator[Event]:
    """Those that take time, from the arrival of the last member to the end."""
    compiled = timeline.compiled
    columns, stages = compiled.program.columns, compiled.program.stages
    shown = np.flatnonzero(~timeline.computes & (timeline.end_s > timeline.start_s))
    start, length = _microseconds(timeline.start_s[shown], timeline.end_s[shown])
    rank = compiled.rank[shown]
    lane = lanes(timeline.start_s[shown], timeline.end_s[shown], rank)
    for number, row in enumerate(compiled.first[shown].tolist()):
        group, bucket = int(columns.group[row]), int(columns.part[row])
        what = Collective(columns.collective[row]).name.lower().replace("_", "-")
        members = f"stage {group}" if group < stages else f"tied {group - stages}"
        yield _complete(
            f"{what} {members}", int(rank[number]), THREADS["sync"] + int(lane[number]),
            at=start[number], length=length[number],
            args={"group": members, "bucket": bucket, "iteration": int(columns.iteration[row])},
        )  # fmt: skip


def _operation(program: Program, row: int) -> tuple[str, Event]:
    """Name and arguments; an arrow gives the direction where there are two."""
    kind, arguments = Kind(program.columns.kind[row]), _arguments(program, row)
    arrow = "" if program.pipes == 1 else "↑" if arguments["pipe"] % 2 else "↓"
    number = arguments["stage" if kind == Kind.UPDATE else "micro_batch"]
    return f"{NAMES[kind]}{arrow} {number}", arguments


def _arguments(program: Program, row: int) -> Event:
    columns = program.columns
    fields = ("stage", "pipe", "micro_batch", "version", "iteration")
    arguments = {name: int(getattr(columns, name)[row]) for name in fields}
    return arguments | {"part": int(columns.part[row])} if columns.parts[row] > 1 else arguments


def _microseconds(start: Floats, end: Floats) -> tuple[list[float], list[float]]:
    """Starts and lengths in whole nanoseconds, so that what follows each other does not seem to overlap."""
    begin, finish = np.rint(start * 1e9), np.rint(end * 1e9)
    return (begin / 1e3).tolist(), ((finish - begin) / 1e3).tolist()


def _complete(name: str, rank: int, thread: int, *, at: float, length: float, args: Event) -> Event:
    return {"name": name, "ph": "X", "pid": rank, "tid": thread, "ts": at, "dur": length, "args": args}


def _thread_names(depth: int, events: list[Event]) -> Iterator[Event]:
    used = {(event["pid"], event["tid"]) for event in events}
    used |= {(rank, thread) for rank in range(depth) for thread in THREADS.values()}
    words = {thread: word for word, thread in THREADS.items()}
    for rank in range(depth):
        yield _named("process_name", rank, 0, name=f"rank {rank}")
        yield _named("process_sort_index", rank, 0, sort_index=rank)
    for rank, thread in sorted(used):
        first = thread // 1000 * 1000
        yield _named(
            "thread_name",
            rank,
            thread,
            name=words[first] + (f" {thread - first + 1}" if thread > first else ""),
        )
        yield _named("thread_sort_index", rank, thread, sort_index=thread)


def _named(what: str, rank: int, thread: int, **arguments: Any) -> Event:
    return {"name": what, "ph": "M", "pid": rank, "tid": thread, "args": arguments}
