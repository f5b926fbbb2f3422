"""Does a timeline read well in a terminal?"""

import re

import pytest

from tests.tuner.simulated import make_timeline
from tuner.gantt import MAX_RANKS, gantt

ALL = (
    "gpipe", "dapple", "gems", "chimera", "interleaved", "zb_h1", "zb_v", "dualpipe", "chimera_split",
    "pipedream", "pipedream_2bw", "pipemare",
)  # fmt: skip


def test_cells_with_room_hold_letter_and_number() -> None:
    """D = 4, N = 4: the figure of the paper, lower case going up, three columns a forward."""
    lines = gantt(make_timeline("chimera", 4, 4), columns=60)
    assert lines[:5] == [
        "time    0              5              10             15",
        "rank 0  F0-F1-...f2-b2====f3-b3====...B0====......B1====",
        "rank 1  ...F0-f2-F1-f3-...b2====B0====b3====B1====......",
        "rank 2  ...f2-F0-f3-F1-...B0====b2====B1====b3====......",
        "rank 3  f2-f3-...F0-B0====F1-B1====...b2====......b3====",
    ]


def test_narrow_cells_have_their_numbers_above() -> None:
    """Two lines for each rank; a number that has no room is left out."""
    lines = gantt(make_timeline("dapple", 2, 11), columns=46)
    assert lines[1:5] == [
        "rank 0  01  0 21 32 43 54 65 76 87 98  9  10",
        "        FF..B=FB=FB=FB=FB=FB=FB=FB=FB=FB=.B=",
        "rank 1   00 11 22 33 44 55 66 77 88 99  10",
        "        .FB=FB=FB=FB=FB=FB=FB=FB=FB=FB=FB=..",
    ]


@pytest.mark.parametrize("columns", [40, 80, 120, 160, 200])
@pytest.mark.parametrize("schedule", ALL)
def test_no_line_is_wider_than_the_terminal(schedule: str, columns: int) -> None:
    """Whatever the schedule, with hops, collectives and updates."""
    timeline = make_timeline(schedule, 8, 16, hop_latency=0.1, sync_time=6.0, update_time=0.7)
    *picture, _, legend, where = gantt(timeline, columns=columns)
    assert max(map(len, picture)) <= columns
    assert legend.startswith("F forward; ")
    assert "one column is" in where


def test_every_column_shows_what_runs_then() -> None:
    """Idle columns are as many as idle time, for whole times."""
    timeline = make_timeline("chimera", 8, 16)
    bands = gantt(timeline, columns=150)[2:18:2]
    assert len(bands) == 8
    for band in bands:
        assert len(band) == 8 + 2 * 66
        assert band[8:].count(".") == 2 * (66 - 48)
        assert len(re.findall("[Ff]", band)) == len(re.findall("[Bb]", band)) == 16


def test_collectives_have_lines_of_their_own_only_where_they_take_time() -> None:
    """As long as they run, below the rank; side by side where they overlap."""
    without = gantt(make_timeline("chimera", 8, 16), columns=160)
    assert not any("sync" in line for line in without)
    lines = gantt(make_timeline("chimera", 8, 16, sync_time=6.0), columns=160)
    below: dict[str, list[list[str]]] = {}
    rank = ""
    for line in lines:
        label = line[:8].strip()
        rank = label if label.startswith("rank") else rank
        if label == "sync":
            below.setdefault(rank, []).append(line[8:].split())
    assert below["rank 0"] == [["S7~~~~~~~~~~", "S0~~~~~~~~~~"]]
    assert below["rank 3"] == [["S4~~~~~~~~~~"], ["S3~~~~~~~~~~"]]
    assert "S gradient collective" in lines[-2]


def test_fused_pairs_have_both_letters_and_numbers() -> None:
    """A forward of one direction with a backward of the other."""
    lines = gantt(make_timeline("dualpipe", 4, 10), columns=160)
    assert "Fb3.6=======" in lines[1]


def test_pieces_of_a_backward_are_told_apart() -> None:
    """Input and weight gradients, and odd chunks in lower case."""
    lines = gantt(make_timeline("zb_v", 2, 4), columns=160)
    assert {letter for line in lines[1:3] for letter in line[8:] if letter.isalpha()} == set("FIWfiw")
    assert "odd chunks" in lines[-2]


def test_a_long_program_is_drawn_without_numbers() -> None:
    """One line for each rank, and the legend says so."""
    lines = gantt(make_timeline("chimera", 4, 400), columns=100)
    assert [line[:6] for line in lines[1:5]] == [f"rank {rank}" for rank in range(4)]
    assert not re.search(r"\d", lines[1][8:])
    assert "narrower than a column" in lines[-1]


def test_many_ranks_are_cut_in_the_middle() -> None:
    """First and last ones are shown, and how many are not."""
    lines = gantt(make_timeline("dapple", 100, 1), columns=120)
    assert f"{100 - MAX_RANKS} ranks are not shown" in "\n".join(lines)
    assert sum(line.startswith("rank") for line in lines) == MAX_RANKS
    assert any(line.startswith("rank 99") for line in lines)


def test_colours_change_nothing_but_colour() -> None:
    """Without the escapes the lines are the same."""
    timeline = make_timeline("chimera", 4, 8, sync_time=2.0)
    plain, coloured = gantt(timeline, columns=120), gantt(timeline, columns=120, colour=True)
    assert plain != coloured
    assert [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in coloured] == plain


def test_any_terminal_can_show_it() -> None:
    """ASCII alone."""
    for schedule in ALL:
        assert "\n".join(gantt(make_timeline(schedule, 4, 8, sync_time=1.0), columns=120)).isascii()
