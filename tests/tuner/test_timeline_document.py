"""Does a page get the timeline whole, small and always the same?"""

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.tuner.simulated import make_timeline
from tuner.timeline_document import timeline_document


def columns(document: dict[str, Any], name: str = "operations") -> list[dict[str, Any]]:
    """Its entries as objects."""
    table = document[name]
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def test_every_operation_has_an_entry() -> None:
    """Rank by rank, in order; whole times are whole numbers."""
    document = timeline_document(make_timeline("chimera", 4, 4))
    assert (document["makespan"], document["depth"], document["pipes"]) == (16, 4, 2)
    operations = columns(document)
    assert len(operations) == 32
    assert operations[0] == {
        "rank": 0, "start": 0, "end": 1, "kind": 0, "pipe": 0, "stage": 0, "micro_batch": 0, "half": 0,
        "live": 1,
    }  # fmt: skip
    assert [entry["rank"] for entry in operations] == sorted(entry["rank"] for entry in operations)
    assert document["kinds"][:4] == ["F", "B", "I", "W"]


def test_fused_pairs_share_an_interval() -> None:
    """The halves of a pair are 1 and 2."""
    operations = columns(timeline_document(make_timeline("dualpipe", 4, 10)))
    halves = [entry for entry in operations if entry["half"]]
    assert [entry["half"] for entry in halves] == [1, 2] * (len(halves) // 2)
    for first, second in zip(halves[::2], halves[1::2], strict=True):
        assert (first["rank"], first["start"], first["end"]) == (
            second["rank"],
            second["start"],
            second["end"],
        )
        assert first["pipe"] != second["pipe"]


@pytest.mark.parametrize("schedule", ["gpipe", "dapple", "gems", "chimera", "dualpipe", "chimera_split"])
def test_live_counts_reach_the_peak_and_end_at_nothing(schedule: str) -> None:
    """The memory along the timeline."""
    timeline = make_timeline(schedule, 4, 8)
    for rank, peak in enumerate(timeline.peak_live().tolist()):
        live = [entry["live"] for entry in columns(timeline_document(timeline)) if entry["rank"] == rank]
        assert max(live) == peak
        assert live[-1] == 0


def test_the_critical_path_leads_to_the_end() -> None:
    """Its entries follow each other without a gap where messages are free."""
    document = timeline_document(make_timeline("chimera", 8, 16))
    operations = columns(document)
    path = [operations[index] for index in document["critical_path"]]
    assert path[0]["start"] == 0
    assert path[-1]["end"] == document["makespan"]
    assert all(before["end"] == after["start"] for before, after in pairwise(path))


def test_collectives_and_updates_are_there_when_they_take_time() -> None:
    """A collective has an entry on every rank of it."""
    document = timeline_document(make_timeline("chimera", 4, 4, sync_time=3.0, update_time=0.5))
    collectives = columns(document, "collectives")
    assert sorted(entry["group"] for entry in collectives) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert all(entry["end"] - entry["start"] == 3 for entry in collectives)
    update = document["kinds"].index("UPDATE")
    assert sum(entry["kind"] == update for entry in columns(document)) == 8
    assert not timeline_document(make_timeline("chimera", 4, 4))["collectives"]["rank"]


def test_65_thousand_operations_are_less_than_3_mb() -> None:
    """With times that no decimal fraction ends, to a millionth of the makespan; and twice the same bytes."""
    costs = {"forward": 1 / 7, "backward": 2 / 9, "hop_latency": 1e-3 / 3}
    texts = []
    for _ in range(2):
        document = timeline_document(make_timeline("chimera", 32, 1024, **costs))
        texts.append(json.dumps(document, separators=(",", ":")))
    assert len(document["operations"]["rank"]) == 65_536
    assert len(texts[0]) < 3_000_000
    assert texts[0] == texts[1]
