"""Is a gang of ranks, each in a place that shares nothing with the others, run and judged as one?"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from executor.launchers.findings import read_findings
from executor.launchers.gangs.gang import Ended, Heard, attend
from executor.launchers.gangs.place_process import PlaceProcess
from executor.launchers.gangs.room import Node, most_places, tell_room
from executor.launchers.gangs.seen import nobody, read_sighting, tell_sighting
from executor.launchers.launch import Launch
from executor.launchers.outcome import Failure, Outcome, Status
from executor.launchers.progress import Note, RankRecord, RankState
from executor.launchers.watchdog import Limits, Sighting
from tests.executor.launchers.remains import Remains

BODIES = "tests.executor.launchers.bodies:"


class PlacesHere:
    """Places of a cluster whose only node is this machine."""

    def __init__(
        self, launch: Launch, places: Sequence[PlaceProcess] = (), *, taken: int | None = None
    ) -> None:
        self._places = list(places) or [
            PlaceProcess(launch.to_json(), rank, address="127.0.0.1") for rank in range(launch.ranks)
        ]
        self._taken = taken

    def look(self) -> Sequence[Heard]:
        """What they have said."""
        return [
            Heard(
                at_ns=time.monotonic_ns(),
                here=place.said.get("here"),
                seen=place.said.get("seen"),
                result=place.said.get("result"),
                lost=place.ended,
            )
            for place in self._places
        ]

    def begin(self, address: str, port: int) -> None:
        """Start the ranks."""
        for place in self._places:
            place.begin(address, port)

    def ended(self) -> Ended | None:
        """Once the rank `taken` has begun, the cluster takes them all."""
        seen = self._places[self._taken].said.get("seen") if self._taken is not None else None
        return Ended(Status.TIMED_OUT, "the job reached its limit") if seen and seen["note"] else None

    def end(self) -> None:
        """End them."""
        for place in self._places:
            place.end()


@contextmanager
def placed(launch: Launch, **options: Any) -> Iterator[PlacesHere]:
    """Places that are given back."""
    places = PlacesHere(launch, **options)
    try:
        yield places
    finally:
        places.end()


def launch_of(body: str, *, ranks: int, spec: dict[str, Any] | None = None) -> Launch:
    """A body of the launchers' tests."""
    return Launch(BODIES + body, spec or {}, ranks, limits=Limits(timeout_s=90.0, start_up_s=90.0))


def run(launch: Launch, **options: Any) -> Outcome:
    """Run it in places of this machine."""
    with placed(launch, **options) as places:
        return read_findings(attend(places, launch, wait=time.sleep), launch)


def failure_of(outcome: Outcome) -> Failure:
    """What ended a run that did not end well."""
    assert outcome.failure is not None
    return outcome.failure


def test_ranks_in_places_of_their_own_find_each_other(remains: Remains) -> None:
    """Numbers go round the ring, and nothing is left."""
    outcome = run(launch_of("ring", ranks=2, spec={"rounds": 3}))
    assert (outcome.status, outcome.failure) == (Status.OK, None)
    assert [result["value"] for result in outcome.results] == [1.0, 0.0]
    assert remains.found() == []


@pytest.mark.parametrize(
    ("what", "ended_by", "lost", "words"),
    [
        ("raise", None, False, "stage 2 divides by nothing"),
        pytest.param("kill", "SIGKILL", True, "killed by SIGKILL", marks=pytest.mark.long),
    ],
)
def test_of_a_gang_the_rank_that_failed_first_is_named(
    remains: Remains, what: str, ended_by: str | None, lost: bool, words: str
) -> None:
    """With machine, operation and cause, though its peers fail as well on clocks of their own."""
    outcome = run(launch_of("ring", ranks=2, spec={"rounds": 9, "victim": 1, "at": 3, "what": what}))
    failure = failure_of(outcome)
    assert (outcome.status, failure.rank, failure.signal, failure.lost) == (
        Status.FAILED,
        1,
        ended_by,
        lost,
    )
    assert failure.operation is not None
    assert failure.operation.micro_batch == 3
    assert f"rank 1 of 2 on {os.uname().nodename}, at operation 3, 1F3" in failure.message
    assert words in failure.message
    assert remains.found() == []


@pytest.mark.long
def test_what_takes_a_whole_gang_is_told_instead_of_what_it_did_to_the_ranks(remains: Remains) -> None:
    """Nothing is known of the configuration then."""
    outcome = run(launch_of("silent", ranks=2), taken=0)
    failure = failure_of(outcome)
    assert (outcome.status, failure.rank, failure.lost) == (Status.TIMED_OUT, None, True)
    assert failure.message == "the job reached its limit"
    assert remains.found() == []


@pytest.mark.long
def test_a_place_that_dies_loses_its_rank(remains: Remains) -> None:
    """Its process ends with it."""
    launch = launch_of("silent", ranks=2)
    with placed(launch) as places:
        killed: list[int] = []

        def wait(seconds: float) -> None:
            time.sleep(seconds)
            seen = places.look()[1].seen
            if not killed and seen and seen["note"]:
                killed.extend(
                    pid for pid, command in remains.processes().items() if "gangs.place " in command
                )
                os.kill(max(killed), signal.SIGKILL)

        outcome = read_findings(attend(places, launch, wait=wait), launch)
    failure = failure_of(outcome)
    assert (outcome.status, failure.rank, failure.lost) == (Status.FAILED, 1, True)
    assert "was lost: the process that sees to the rank ended with -9" in failure.message
    assert remains.processes() == {}


def test_what_is_seen_survives_the_change_of_clocks() -> None:
    """Ages stay, whichever moment the clocks call now."""
    report = {"at_ns": 900, "meaning": "error", "exception": "E", "message": "m", "bytes": None, "trace": ""}
    note = Note(700, 3, tuple(range(10)))
    record = RankRecord(2, RankState.FAILED, 17, 100, 800, "loading", note, True, report, 950, 9)
    told = tell_sighting(Sighting(record, gone_ns=960), now_ns=1000)
    heard = read_sighting(told, 2, now_ns=51_000)
    assert heard.gone_ns == 50_960
    assert (heard.record.started_ns, heard.record.active_ns, heard.record.ended_ns) == (
        50_100,
        50_800,
        50_950,
    )
    assert heard.record.note == Note(50_700, 3, note.fields)
    assert heard.record.report == report | {"at_ns": 50_900}
    absent = nobody(1)
    assert read_sighting(tell_sighting(absent, now_ns=5), 1, now_ns=99) == absent


def test_what_is_missing_is_told_in_numbers() -> None:
    """Per node; one that takes no work has no room."""
    wanted = {"CPU": 2.0, "GPU": 1.0}
    nodes = [
        Node("a", {"CPU": 8, "GPU": 4}, {"CPU": 8, "GPU": 2}),
        Node("b", {"CPU": 8, "GPU": 4}, {"CPU": 3, "GPU": 4}),
        Node("c", {"CPU": 8, "GPU": 4}, {"CPU": 8, "GPU": 4}, "drained"),
    ]
    assert most_places(nodes, wanted) == 8
    told = tell_room(nodes, ranks=4, wanted=wanted)
    assert told.startswith(
        "wanted at once: 4 devices of 2 CPU and 1 GPU; room on 3 nodes: 2 + 1 + 0 = 3 now, 8"
    )
    assert told.endswith("c is drained); missing now: 1")
    assert tell_room(nodes, ranks=9, wanted=wanted).endswith("missing even when all are idle: 1")


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give processes another clock")
@pytest.mark.parametrize("schedule", ["dapple", "pipedream"])
def test_a_trial_over_machines_with_clocks_of_their_own_is_timed(schedule: str) -> None:
    """Sleeps and messages take what was predicted, though one clock is days ahead."""
    command = [sys.executable, "-P", "-m", "tests.executor.launchers.two_machines", schedule]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout)
    assert told["status"] == "ok", told
    assert (told["hosts"][1], told["shared"]) == ("another", [False, False])
    assert told["predicted_iteration_s"] <= told["measured_iteration_s"]["median"] < 60
    assert 0 < told["timeline_s"] < 60
