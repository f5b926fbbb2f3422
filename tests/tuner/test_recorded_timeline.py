"""Does a recorded trace come back as the timeline that it was written from, and is anything else refused?"""

import json
from typing import Any

import pytest

from tests.tuner.simulated import make_timeline
from tests.tuner.test_traces import CASES
from tuner.errors import RequestError
from tuner.recorded_timeline import recorded_document
from tuner.timeline_document import timeline_document
from tuner.traces import trace_json


@pytest.mark.parametrize(("schedule", "options"), CASES, ids=str)
def test_a_trace_gives_back_its_timeline(schedule: str, options: dict[str, Any]) -> None:
    """Every operation with its interval, to the digits that a document has, and what was alive after it."""
    timeline = make_timeline(schedule, 4, 8, **options)
    written = timeline_document(timeline)
    read = recorded_document(json.loads(trace_json(timeline)), schedule=schedule)
    for name in ("rank", "kind", "pipe", "stage", "micro_batch", "half", "live"):
        assert read["operations"][name] == written["operations"][name], name
    for edge in ("start", "end"):
        assert read["operations"][edge] == pytest.approx(written["operations"][edge], abs=1e-5)
    assert sorted(read["collectives"]["group"]) == sorted(written["collectives"]["group"])
    for name in ("depth", "pipes", "iterations", "parts"):
        assert read[name] == written[name], name
    assert read["makespan"] == pytest.approx(written["makespan"], abs=1e-5)


EVENT: dict[str, Any] = {"ph": "X", "pid": 0, "tid": 0, "ts": 0, "dur": 1, "name": "F 0", "args": {}}


@pytest.mark.parametrize(
    "trace",
    [
        None,
        [],
        {"traceEvents": "none"},
        {"traceEvents": [1, {"ph": "X"}, {"ph": "X", "pid": 0, "tid": 0, "ts": "0", "dur": 1}]},
        {"traceEvents": [EVENT | {"pid": 2000}]},
        {"traceEvents": [EVENT | {"args": {"pipe": 1e9}}]},
        {"traceEvents": [EVENT | {"ts": float("nan")}]},
    ],
    ids=lambda trace: str(trace)[:60],
)  # fmt: skip
def test_what_is_no_trace_is_refused_in_words(trace: Any) -> None:
    """A worker may have written anything."""
    with pytest.raises(RequestError, match="run the trial again"):
        recorded_document(trace, schedule="dapple")
