"""Does the watchdog name the rank that is the cause, and wait no longer than it may?"""

from dataclasses import replace
from typing import Any

import pytest

from executor.launchers.progress import Note, RankRecord, RankState
from executor.launchers.watchdog import Cause, Limits, Sighting, Verdict, judge

S = 1_000_000_000
LIMITS = Limits(timeout_s=100, start_up_s=20, silence_s=10, stopped_s=5, settle_s=1.5)
NOTE = Note(1, 0, (0,) * 10)


def seen(rank: int, *, active_s: float = 30.0, gone_s: float | None = None, **changes: Any) -> Sighting:
    """A rank that runs, and last wrote something at `active_s`."""
    record = RankRecord(rank, RankState.RUNNING, 100 + rank, S, int(active_s * S), "", NOTE, False, None)
    stopped_s = changes.pop("stopped_s", None)
    return Sighting(
        replace(record, **changes),
        None if gone_s is None else int(gone_s * S),
        None if stopped_s is None else int(stopped_s * S),
    )


def failed(rank: int, at_s: float, meaning: str = "error") -> Sighting:
    """A rank that left a report."""
    return seen(rank, state=RankState.FAILED, report={"at_ns": int(at_s * S), "meaning": meaning})


def verdict(*sightings: Sighting, now_s: float = 31.0) -> Verdict | None:
    """On ranks that were launched at 0."""
    return judge(sightings, now_ns=int(now_s * S), launched_ns=0, limits=LIMITS)


def test_ranks_that_go_on_are_left_alone() -> None:
    """Also one that is done and gone."""
    assert verdict(seen(0), seen(1, state=RankState.DONE, gone_s=20)) is None


def test_the_first_report_counts() -> None:
    """By the time it was written, not by the rank's number."""
    assert verdict(failed(0, 30.2), seen(1), failed(2, 30.1)) == Verdict(Cause.REPORTED, 2)


def test_a_rank_that_lost_a_peer_is_not_the_cause() -> None:
    """Though it reported before the loss was seen."""
    assert verdict(failed(0, 30.1, "peer_lost"), seen(1, gone_s=30.4)) == Verdict(Cause.GONE, 1)


def test_the_moment_that_the_parent_wrote_down_orders_deaths() -> None:
    """Both were seen dead at once; one of them was ended by the agent because of the other."""
    assert verdict(seen(0, gone_s=30.5), seen(1, gone_s=30.5, ended_ns=30 * S)) == Verdict(Cause.GONE, 1)


@pytest.mark.parametrize(("now_s", "expected"), [(31.0, None), (32.0, Verdict(Cause.REPORTED, 0))])
def test_a_lost_peer_alone_is_the_cause_only_after_a_while(now_s: float, expected: Verdict | None) -> None:
    """1.5 s, in which the peer's own failure can become known."""
    assert verdict(failed(0, 30.0, "peer_lost"), seen(1), now_s=now_s) == expected


@pytest.mark.parametrize(("now_s", "expected"), [(34.9, None), (36.0, Verdict(Cause.STOPPED, 1, 6.0))])
def test_a_stopped_rank_has_some_seconds_to_be_resumed(now_s: float, expected: Verdict | None) -> None:
    """Five here."""
    assert verdict(seen(0), seen(1, stopped_s=30.0), now_s=now_s) == expected


def test_of_silent_ranks_the_one_that_waits_for_nobody_is_named() -> None:
    """Though another has been waiting for longer."""
    ranks = seen(0, active_s=29, waiting=True), seen(1, active_s=30), seen(2, active_s=29.5, waiting=True)
    assert verdict(*ranks, now_s=39) is None
    assert verdict(*ranks, now_s=41) == Verdict(Cause.SILENT, 1, 11.0)


def test_where_all_wait_the_longest_is_named() -> None:
    """They wait for each other."""
    ranks = seen(0, active_s=30, waiting=True), seen(1, active_s=29, waiting=True)
    assert verdict(*ranks, now_s=41) == Verdict(Cause.SILENT, 1, 12.0)


def test_one_rank_that_goes_on_breaks_the_silence() -> None:
    """The others may wait for it as long as they like."""
    assert verdict(seen(0, active_s=5, waiting=True), seen(1, active_s=30), now_s=39) is None


def test_the_whole_run_is_bounded() -> None:
    """However busy the ranks are."""
    assert verdict(seen(0, active_s=100), seen(1, active_s=99), now_s=101) == Verdict(Cause.TIMEOUT, 1, 2.0)


def test_a_rank_that_does_not_begin_is_named() -> None:
    """After the time for starting up."""
    absent = seen(1, state=RankState.ABSENT, pid=0, active_s=0, note=None)
    assert verdict(seen(0, active_s=15), absent, now_s=19) is None
    assert verdict(seen(0, active_s=15), absent, now_s=21) == Verdict(Cause.START_UP, 1, 21.0)


def test_a_run_of_which_nothing_began_times_out_without_a_rank() -> None:
    """There is none to name."""
    absent = seen(0, state=RankState.ABSENT, pid=0, active_s=0, note=None)
    limits = replace(LIMITS, timeout_s=5.0)
    assert judge([absent], now_ns=6 * S, launched_ns=0, limits=limits) == Verdict(Cause.TIMEOUT, None, 6.0)
