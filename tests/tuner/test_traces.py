"""Does a timeline become Trace Event JSON that Perfetto and chrome://tracing draw as it was?"""

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from tests.tuner.simulated import make_timeline
from tuner.timeline import Timeline
from tuner.traces import THREADS, trace_json

CASES = [
    ("chimera", {"hop_latency": 0.3, "sync_time": 5.0, "buckets": 2, "update_time": 0.5}),
    ("chimera", {"scaling": "halving"}),
    ("dapple", {"hop_latency": 2.5}),
    ("dualpipe", {"hop_latency": 0.1}),
    ("zb_v", {"hop_latency": 1 / 3}),
    ("interleaved", {}),
    ("pipedream", {"iterations": 2, "update_time": 0.1}),
]  # fmt: skip


def read(timeline: Timeline) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The complete events and the metadata of the document."""
    document = json.loads(trace_json(timeline))
    assert document.keys() == {"displayTimeUnit", "traceEvents"}
    events = document["traceEvents"]
    assert {event["ph"] for event in events} == {"X", "M"}
    return [e for e in events if e["ph"] == "X"], [e for e in events if e["ph"] == "M"]


def thread_names(metadata: list[dict[str, Any]]) -> dict[tuple[int, int], str]:
    """What each thread is called."""
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in metadata if e["name"] == "thread_name"}


@pytest.mark.parametrize(("schedule", "options"), CASES, ids=str)
def test_nothing_overlaps_on_a_thread(schedule: str, options: dict[str, Any]) -> None:
    """Times are whole nanoseconds, so that what follows each other is not drawn nested."""
    events, metadata = read(make_timeline(schedule, 4, 8, **options))
    names = thread_names(metadata)
    threads = defaultdict(list)
    for event in events:
        begin, length = round(event["ts"] * 1e3), round(event["dur"] * 1e3)
        assert begin >= 0
        assert length >= 0
        assert abs(event["ts"] * 1e3 - begin) < 1e-3
        threads[event["pid"], event["tid"]].append((begin, begin + length))
    assert threads.keys() <= names.keys()
    for spans in threads.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


@pytest.mark.parametrize(("schedule", "options"), CASES, ids=str)
def test_every_operation_is_there_with_what_it_works_on(schedule: str, options: dict[str, Any]) -> None:
    """Times in microseconds of costs in seconds; the sum is the ranks' work."""
    timeline = make_timeline(schedule, 4, 8, **options)
    events, _ = read(timeline)
    compute = [e for e in events if e["tid"] == THREADS["compute"]]
    for event in compute:
        assert {"stage", "pipe", "micro_batch", "version"} <= event["args"].keys()
    for rank, busy in enumerate(timeline.busy_s().tolist()):
        mine = [event["dur"] for event in compute if event["pid"] == rank]
        assert sum(mine) == pytest.approx(busy * 1e6, abs=1.0)
    assert max(e["ts"] + e["dur"] for e in events) == pytest.approx(timeline.makespan_s * 1e6, abs=1.0)


def test_a_rank_is_a_process_with_four_threads() -> None:
    """Named, and sorted as ranks are."""
    _, metadata = read(make_timeline("dapple", 3, 2))
    named = {e["pid"]: e["args"]["name"] for e in metadata if e["name"] == "process_name"}
    assert named == {0: "rank 0", 1: "rank 1", 2: "rank 2"}
    assert sorted(thread_names(metadata).values()) == sorted([*THREADS] * 3)
    order = [e["args"]["sort_index"] for e in metadata if e["name"] == "process_sort_index"]
    assert order == [0, 1, 2]


@pytest.mark.parametrize(("schedule", "options"), CASES, ids=str)
def test_an_arrow_leads_from_every_send_to_its_receive(schedule: str, options: dict[str, Any]) -> None:
    """Both last as long as the message is on its way, and say what it carries."""
    events, metadata = read(make_timeline(schedule, 4, 8, **options))
    names = thread_names(metadata)
    flows = defaultdict(list)
    for event in events:
        if "bind_id" in event:
            flows[event["bind_id"]].append(event)
    assert flows
    for first, second in flows.values():
        assert first.get("flow_out")
        assert second.get("flow_in")
        assert names[first["pid"], first["tid"]].startswith("send")
        assert names[second["pid"], second["tid"]].startswith("receive")
        assert (first["ts"], first["dur"], first["name"]) == (second["ts"], second["dur"], second["name"])
        assert (first["pid"], second["pid"]) == (first["args"]["from"], first["args"]["to"])


def test_messages_are_told_by_what_was_sent() -> None:
    """Stage and pipe are those of the sender."""
    timeline = make_timeline("dualpipe", 4, 10, hop_latency=0.1)
    events, _ = read(timeline)
    placement = timeline.compiled.program.placement
    for event in (e for e in events if "flow_out" in e):
        held = placement[event["args"]["pipe"]][event["args"]["stage"]]
        assert held == event["pid"]
        assert event["name"].split()[0] in {"activation", "gradient"}


def test_collectives_are_told_by_stage_and_bucket() -> None:
    """Those that take time; each on the ranks that hold a replica."""
    events, metadata = read(make_timeline("chimera", 4, 4, sync_time=4.0, buckets=2))
    names = thread_names(metadata)
    syncs = [e for e in events if names[e["pid"], e["tid"]].startswith("sync")]
    assert len(syncs) == 2 * 4 * 2
    of_first = [e for e in syncs if e["name"] == "all-reduce stage 0"]
    assert {e["pid"] for e in of_first} == {0, 3}
    assert {e["args"]["bucket"] for e in of_first} == {0, 1}
    assert all(e["dur"] == 2e6 for e in syncs)
    assert not any(e["tid"] >= THREADS["sync"] for e in read(make_timeline("chimera", 4, 4))[0])


def test_names_tell_direction_and_fused_pairs() -> None:
    """An arrow where there are two directions; a pair is one event that has both."""
    events, _ = read(make_timeline("dualpipe", 4, 10))
    names = {e["name"] for e in events if e["tid"] == 0}
    assert {"F↓ 3 + B↑ 6", "W↓ 4"} <= names
    fused = next(e for e in events if e["name"] == "F↓ 3 + B↑ 6")
    assert fused["dur"] == 3e6
    assert fused["args"]["with"]["micro_batch"] == 6
    assert "F 0" in {e["name"] for e in read(make_timeline("dapple", 2, 2))[0]}


def test_halves_are_numbered() -> None:
    """Backward halving runs each backward in two parts."""
    events, _ = read(make_timeline("chimera", 4, 4, scaling="halving"))
    assert {e["args"].get("part") for e in events if e["name"] == "B↓ 0"} == {0, 1}


def test_equal_timelines_give_equal_bytes() -> None:
    """The document depends on nothing else."""
    one, other = (trace_json(make_timeline("chimera", 4, 8, hop_latency=0.1)) for _ in range(2))
    assert one == other
