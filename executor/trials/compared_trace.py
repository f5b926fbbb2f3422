"""How do a measured and a predicted timeline look side by side? As one trace, two processes for each rank."""

import json
from collections.abc import Iterator

from tuner.timeline import Timeline
from tuner.traces import PREDICTED, Event, trace_events


def compared_trace(measured: Timeline | None, predicted: Timeline | None) -> str:
    """Trace Event JSON; of each rank the measured timeline stands above the predicted one."""
    parts = [("measured", measured, 0), ("predicted", predicted, PREDICTED)]
    events = [
        event
        for word, timeline, offset in parts
        if timeline is not None
        for event in _named(timeline, word, offset)
    ]
    lines = (json.dumps(event, separators=(",", ":")) for event in events)
    return '{"displayTimeUnit":"ms","traceEvents":[\n' + ",\n".join(lines) + "\n]}\n"


def _named(timeline: Timeline, word: str, offset: int) -> Iterator[Event]:
    for event in trace_events(timeline):
        rank = event["pid"]
        changed = event | {"pid": rank + offset}
        if event["name"] == "process_name":
            changed["args"] = {"name": f"rank {rank} {word}"}
        elif event["name"] == "process_sort_index":
            changed["args"] = {"sort_index": 2 * rank + (1 if offset else 0)}
        if "bind_id" in event:
            changed["bind_id"] = f"{event['bind_id']}{'f' * bool(offset)}{offset or ''}"
        yield changed
