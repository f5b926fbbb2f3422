"""How are layer times read from a trace of torch.profiler (Kineto's Trace Event JSON)?

A layer's forward is a range of that name (`torch.profiler.record_function("layers.0")`), its backward what
autograd runs for the operations in that range: they carry one "Sequence number". Where the trace has kernels,
a time is the union of those that were launched meanwhile; else it is the time on the CPU.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

from tuner.imports.errors import ImportedError
from tuner.imports.layer_times import LayerTime, Names, type_named

_RANGES = frozenset({"user_annotation", "python_function"})
_LAUNCHES = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime"})
_KERNELS = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
_BACKWARD = "autograd::engine::evaluate_function"
_MICRO = 1e-6
_LONGEST = 1e18
_LOST = 0.01
"""Share of kernels without a time beyond which their layers would seem faster than they are."""

Thread = tuple[str, str]
Span = tuple[float, float]


@dataclass(frozen=True)
class _Event:
    """Times in microseconds."""

    name: str
    category: str
    thread: Thread
    start: float
    end: float
    sequence: int | None
    correlation: int | None


def read_trace(document: Any, *, name: str, micro_batch_size: int, names: Names) -> Iterator[LayerTime]:
    """A time for each range that names a layer and has a backward; raises ImportedError for no trace."""
    events = _events(document, name)
    launched = _launched(events)
    operations, backwards = defaultdict(list), defaultdict(list)
    for event in events:
        if event.category == "cpu_op" and event.name.startswith(_BACKWARD):
            backwards[event.thread[0], event.sequence].append(event)
        elif event.category == "cpu_op" and event.sequence is not None:
            operations[event.thread].append(event)
    for found in operations.values():
        found.sort(key=lambda event: event.start)
    starts = {thread: [event.start for event in found] for thread, found in operations.items()}
    for event in events:
        if event.category not in _RANGES or type_named(_plain(event.name), names) is None:
            continue
        inside = _inside(event, operations.get(event.thread, []), starts.get(event.thread, []))
        after = [each for number in inside for each in backwards.get((event.thread[0], number), [])]
        forward, backward = _time([event], launched), _time(after, launched)
        if forward > 0 and backward > 0:
            yield LayerTime(_plain(event.name), micro_batch_size, forward * _MICRO, backward * _MICRO)


def _plain(name: str) -> str:
    """The name of a range, of a module's without what torch puts around it: `nn.Module: Block_3`."""
    return name.removeprefix("nn.Module: ")


def _events(document: Any, name: str) -> list[_Event]:
    rows = document.get("traceEvents") if isinstance(document, Mapping) else document
    if not isinstance(rows, list):
        raise ImportedError(f"{name} is no trace of torch.profiler: it has no list `traceEvents`")
    events = []
    for row in rows:
        if not isinstance(row, Mapping) or row.get("ph") != "X":
            continue
        start, length = _microseconds(row.get("ts")), _microseconds(row.get("dur"))
        if start is None or length is None or length < 0:
            continue
        arguments = row.get("args") if isinstance(row.get("args"), Mapping) else {}
        events.append(
            _Event(
                str(row.get("name", "")), str(row.get("cat", "")), (str(row.get("pid")), str(row.get("tid"))),
                start, start + length,
                _whole(arguments, "Sequence number"), _whole(arguments, "correlation"),
            )
        )  # fmt: skip
    if not events:
        raise ImportedError(f"{name} holds no events with a duration: is it a trace of torch.profiler?")
    return events


def _microseconds(value: Any) -> float | None:
    """A moment or a length, which some devices' profilers write as text; None for what is none."""
    try:
        number = float(value) if isinstance(value, int | float | str) else nan
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < _LONGEST else None


def _whole(arguments: Any, key: str) -> int | None:
    value = arguments.get(key)
    return value if isinstance(value, int) and value >= 0 else None


def _inside(event: _Event, operations: Sequence[_Event], starts: Sequence[float]) -> set[int | None]:
    """The sequence numbers of a range: of the operations of its thread that start in it.

    An operation without a gradient has the number of the next that has one, which may come after the range.
    """
    first, last = bisect_right(starts, event.start - 1e-9), bisect_right(starts, event.end)
    numbers = {operation.sequence for operation in operations[first:last]}
    return numbers - {operation.sequence for operation in operations[last : last + 1]}


def _launched(events: Sequence[_Event]) -> dict[Thread, list[tuple[float, Span]]]:
    """For each thread, when it launched which kernel, by time; empty without a device in the trace."""
    kernels: dict[int, list[Span]] = defaultdict(list)
    for event in _one_after_another([event for event in events if event.category in _KERNELS]):
        if event.correlation is not None:
            # One launch of a CUDA graph starts many.
            kernels[event.correlation].append((event.start, event.end))
    found: dict[Thread, list[tuple[float, Span]]] = defaultdict(list)
    for event in events:
        if event.category in _LAUNCHES and event.correlation is not None:
            found[event.thread] += [(event.start, span) for span in kernels.get(event.correlation, [])]
    for launches in found.values():
        launches.sort()
    return found


def _one_after_another(kernels: list[_Event]) -> Iterator[_Event]:
    """Kernels, each at most until the next of another launch starts on its stream: some profilers write ends
    that are seconds late. Raises ImportedError where many have no time at all.
    """
    lost = sum(1 for kernel in kernels if kernel.start == kernel.end == 0)
    if lost > _LOST * len(kernels):
        raise ImportedError(
            f"{lost:,} of the {len(kernels):,} kernels in the trace have neither a moment nor a length "
            "(ts 0, dur 0): the profiler lost them, and layers would seem faster than they are. Record fewer "
            "steps, or with a newer torch"
        )
    streams: dict[Thread, list[_Event]] = defaultdict(list)
    for kernel in kernels:
        streams[kernel.thread].append(kernel)
    for stream in streams.values():
        stream.sort(key=lambda kernel: kernel.start)
        following = float("inf")
        for kernel, after in zip(reversed(stream), [None, *reversed(stream[1:])], strict=True):
            if after is not None and after.correlation != kernel.correlation:
                following = after.start
            yield replace(kernel, end=max(kernel.start, min(kernel.end, following)))


def _time(events: Sequence[_Event], launched: dict[Thread, list[tuple[float, Span]]]) -> float:
    """Microseconds of some events: of their kernels, or on the CPU where the trace has none."""
    if not launched:
        return _union([(event.start, event.end) for event in events])
    spans = []
    for event in events:
        launches = launched.get(event.thread, [])
        first, last = (bisect_right(launches, (moment, (-1.0, -1.0))) for moment in (event.start, event.end))
        spans += [span for _, span in launches[first:last]]
    return _union(spans)


def _union(spans: list[Span]) -> float:
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
