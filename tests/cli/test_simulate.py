"""Does `chimera simulate` give the makespans, peaks and paths that the schedules are known for?"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Shell
from tests.cli.test_bad_input import check_refused
from tuner.schedules.generators import RECIPES

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "tuner/schedules/golden_schedules.json").read_text(encoding="utf-8")
)["cases"]


def ask(chimera: Shell, schedule: str, depth: int, micro_batches: int, **options: object) -> dict[str, Any]:
    """The answer to a simulation; `_` stands for `-`."""
    asked = {"schedule": schedule, "depth": depth, "micro_batches": micro_batches} | options
    words = [str(word) for key, value in asked.items() for word in (f"--{key.replace('_', '-')}", value)]
    result = chimera("simulate", *words, "--json")
    assert (result.code, result.err) == (0, "")
    answer: dict[str, Any] = json.loads(result.out)
    return answer


@pytest.mark.parametrize(
    "case",
    GOLDEN,
    ids=lambda case: "-".join(str(value) for value in case.values() if isinstance(value, str | int)),
)
def test_golden_makespans_and_peaks_are_exact(chimera: Shell, case: dict[str, Any]) -> None:
    """At forward:backward 1:1, 1:2 and 1:3, and whole numbers come out whole."""
    options = {name: case[name] for name in ("scaling", "pipe_pairs") if name in case}
    for ratio, expected in case["makespan"].items():
        forward, backward = ratio.split(":")
        answer = ask(
            chimera, case["schedule"], case["depth"], case["micro_batches"],
            forward=forward, backward=backward, **options,
        )  # fmt: skip
        assert answer["makespan"] == expected
        assert answer["peak_live_micro_batches"] == case["peak_live_micro_batches"]
        work = case["micro_batches"] * (float(forward) + float(backward))
        assert answer["bubble_ratio"] == pytest.approx(1 - work / expected, abs=1e-12)


@pytest.mark.parametrize(
    ("schedule", "options", "makespan"),
    [
        ("gpipe", {}, 69),
        ("dapple", {}, 69),
        ("interleaved", {"chunks": 2}, 58.5),
        ("chimera", {}, 66),
        ("chimera", {"scaling": "doubling"}, 57),
        ("chimera", {"scaling": "halving"}, 54),
        ("chimera", {"pipe_pairs": 2}, 54),
        ("zb_h1", {}, 55),
        ("dualpipe", {}, 54),
        ("chimera_split", {"pending": 1}, 54),
        ("chimera_split", {"pending": 2}, 53),
        ("chimera_split", {"pending": 3}, 52),
        ("chimera_split", {"pending": 4}, 51),
        ("chimera_split", {}, 51),
    ],
)
def test_eight_ranks_and_sixteen_micro_batches(
    chimera: Shell, schedule: str, options: dict[str, object], makespan: float
) -> None:
    """F = 1, B = 2, of which the weight gradient is half; the ideal is 48. Formulas agree."""
    answer = ask(chimera, schedule, 8, 16, **options)
    assert answer["makespan"] == makespan
    assert answer["closed_form"] in {makespan, None}
    assert answer["lower_bounds"]["busiest_rank"] == 48
    assert [rank["busy"] for rank in answer["ranks"]] == [48] * 8


def test_ranks_of_zb_v_do_not_wait_once_they_have_begun(chimera: Shell) -> None:
    """No rank is there longer than its work takes, though the last one begins (D − 1)/2 later."""
    answer = ask(chimera, "zb_v", 8, 16)
    assert max(rank["span"] for rank in answer["ranks"]) == 48
    assert answer["makespan"] == 48 + 7 / 2


@pytest.mark.parametrize("depth", [4, 8, 16])
@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.parametrize("pending", [1, 2, 3, 4, 8])
def test_split_chimera_has_the_bubble_of_its_formula(
    chimera: Shell, depth: int, units: int, pending: int
) -> None:
    """3N + max(D − 1 − c, D/2 − 1) at F = I = W, with at most c weight gradients waiting."""
    answer = ask(chimera, "chimera_split", depth, units * depth, pending=pending)
    assert answer["makespan"] == 3 * units * depth + max(depth - 1 - pending, depth // 2 - 1)


@pytest.mark.parametrize(
    ("depth", "micro_batches", "pending", "makespan"),
    [(16, 32, 1, 110), (16, 32, 4, 107), (16, 32, 8, 103), (16, 32, None, 103)],
)
def test_split_chimera_on_sixteen_ranks(
    chimera: Shell, depth: int, micro_batches: int, pending: int | None, makespan: float
) -> None:
    """Known makespans; D/2 may wait unless told."""
    options = {} if pending is None else {"pending": pending}
    assert ask(chimera, "chimera_split", depth, micro_batches, **options)["makespan"] == makespan


@pytest.mark.parametrize(
    ("schedule", "depth", "micro_batches", "makespan"),
    [("dapple", 4, 8, 34.6), ("dapple", 8, 16, 73.0), ("chimera", 4, 4, 16.7), ("chimera", 8, 8, 37.9)],
)
def test_hops_of_a_tenth(
    chimera: Shell, schedule: str, depth: int, micro_batches: int, makespan: float
) -> None:
    """A receive that is posted early does not hold back what is ready."""
    answer = ask(chimera, schedule, depth, micro_batches, hop_latency=0.1)
    assert answer["makespan"] == pytest.approx(makespan, abs=1e-9)


@pytest.mark.parametrize("hop", [0.125, 0.25])
@pytest.mark.parametrize("depth", [2, 3, 4, 6, 8, 12])
def test_hop_latency_adds_what_the_formulas_say(chimera: Shell, depth: int, hop: float) -> None:
    """GPipe 2(D−1)c for any N; 1F1B [2(D−1)N/D + 2(D−2)]c where D divides N; Chimera N = D (3D−5)c, D ≥ 4."""
    for units in (1, 2, 3, 4):
        n = units * depth
        base = 3 * (n + depth - 1)
        gpipe, dapple = (ask(chimera, name, depth, n, hop_latency=hop) for name in ("gpipe", "dapple"))
        assert gpipe["makespan"] == base + 2 * (depth - 1) * hop
        assert dapple["makespan"] == base + (2 * (depth - 1) * units + 2 * (depth - 2)) * hop
    if depth >= 4 and depth % 2 == 0:
        answer = ask(chimera, "chimera", depth, depth, hop_latency=hop)
        assert answer["makespan"] == depth + 2 * (2 * depth - 2) + (3 * depth - 5) * hop


@pytest.mark.parametrize("depth", [2, 4, 6, 8, 16, 32])
def test_chimeras_critical_path_is_the_papers(chimera: Shell, depth: int) -> None:
    """N = D: D forwards, 2D − 2 backwards; direct, N = K·D: D + 2(K−1) and (2D−2)K."""
    for units in (1, 2, 3, 4):
        path = ask(chimera, "chimera", depth, units * depth)["critical_path"]
        if depth == 2 and units > 1:
            assert path["forwards"] + 2 * path["backwards"] == 3 * units * depth
        else:
            assert path["forwards"] == depth + 2 * (units - 1)
            assert path["backwards"] == (2 * depth - 2) * units


@pytest.mark.parametrize("schedule", ["gpipe", "dapple"])
@pytest.mark.parametrize(("depth", "micro_batches"), [(1, 1), (2, 3), (4, 9), (8, 8)])
def test_one_pipe_has_equal_forwards_and_backwards_on_its_path(
    chimera: Shell, schedule: str, depth: int, micro_batches: int
) -> None:
    """N + D − 1 of both."""
    path = ask(chimera, schedule, depth, micro_batches)["critical_path"]
    assert path["forwards"] == path["backwards"] == micro_batches + depth - 1


@pytest.mark.parametrize(("depth", "micro_batches"), [(4, 8), (8, 16), (8, 20)])
def test_both_operations_of_a_fused_pair_are_on_the_path(
    chimera: Shell, depth: int, micro_batches: int
) -> None:
    """Where weight gradients take no time, F + 2 for each backward on the path is the makespan."""
    answer = ask(chimera, "dualpipe", depth, micro_batches, weight_gradient=0)
    path = answer["critical_path"]
    assert path["forwards"] + 2 * path["backwards"] == answer["makespan"]


@pytest.mark.parametrize(
    ("schedule", "depth", "micro_batches"),
    [("pipedream", 4, 1), ("pipedream", 4, 8), ("pipedream_2bw", 4, 4), ("pipemare", 8, 3)],
)
def test_asynchronous_schedules_tell_their_period(
    chimera: Shell, schedule: str, depth: int, micro_batches: int
) -> None:
    """Without a flush an iteration takes N(F + B); one iteration has no period."""
    answer = ask(chimera, schedule, depth, micro_batches, iterations=depth + 3, backward=3)
    assert answer["steady_period"] == micro_batches * 4
    assert ask(chimera, schedule, depth, micro_batches)["steady_period"] is None


def test_synchronous_iterations_follow_each_other(chimera: Shell) -> None:
    """Each waits for the weights of the one before."""
    answer = ask(chimera, "chimera", 4, 4, iterations=3)
    assert (answer["makespan"], answer["steady_period"], answer["iterations"]) == (3 * 16, None, 3)
    assert answer["operations"] == 3 * 32


def test_collectives_overlap_what_their_policy_allows(chimera: Shell) -> None:
    """Eager is never later than lazy, buckets change nothing for equal work, updates wait."""
    took = {
        policy: ask(chimera, "chimera", 8, 16, sync_time=6, sync_policy=policy, update_time=1)["makespan"]
        for policy in ("lazy", "eager", "eager_opt")
    }
    assert took["lazy"] == 66 + 6 + 2
    assert took["eager"] <= took["eager_opt"] <= took["lazy"]
    assert ask(chimera, "dapple", 4, 4, sync_time=4, buckets=2)["makespan"] == 21 + 2


def test_chunks_share_the_time_of_a_rank(chimera: Shell) -> None:
    """(N + (D − 1)/v)(F + B), and peaks are counted in micro-batches of a whole rank."""
    for chunks in (2, 4):
        answer = ask(chimera, "interleaved", 8, 16, chunks=chunks)
        assert answer["makespan"] == (16 + 7 / chunks) * 3
        assert answer["peak_live_micro_batches"][0] == 8 + 7 / chunks
        assert answer["chunks"] == chunks


def test_the_answer_has_its_keys(chimera: Shell) -> None:
    """Clients rely on these; D = 8, N = 16 has 256 forwards and backwards."""
    answer = ask(chimera, "chimera", 8, 16)
    assert answer["operations"] == 256
    assert answer["simulate_s"] > 0
    assert answer["generate_s"] > 0
    assert answer["lower_bounds"] == {"busiest_rank": 48, "longest_chain": 24}
    described = {key: answer[key] for key in ("schedule", "depth", "micro_batches", "scaling", "pipe_pairs")}
    assert described == {
        "schedule": "chimera", "depth": 8, "micro_batches": 16, "scaling": "direct", "pipe_pairs": 1,
    }  # fmt: skip


def test_no_answer_beats_its_lower_bounds(chimera: Shell) -> None:
    """Whatever the schedule, with hops."""
    for schedule in (
        "gpipe",
        "dapple",
        "gems",
        "chimera",
        "interleaved",
        "zb_h1",
        "zb_v",
        "dualpipe",
        "chimera_split",
    ):
        answer = ask(chimera, schedule, 4, 8, hop_latency=0.5)
        assert answer["makespan"] >= max(answer["lower_bounds"].values())


def test_help_names_every_schedule(chimera: Shell) -> None:
    """Those that there are programs for."""
    told = set(re.findall(r"\w+", chimera("simulate", "--help").out))
    assert RECIPES.keys() <= told


def test_people_get_a_sentence_a_picture_and_what_to_do_next(chimera: Shell) -> None:
    """On a pipe without colours."""
    result = chimera("simulate", "--schedule", "chimera", "--depth", "8", "--micro-batches", "16")
    assert result.code == 0
    assert "it takes 66, the ranks idle 27.3 % of that, and at most 5 to 8 micro-batches" in result.out
    assert "rank 7" in result.out
    assert "\x1b" not in result.out
    assert result.out.splitlines()[-1].startswith("Next: ")


def test_a_trace_is_written_beside_the_answer(chimera: Shell, tmp_path: Path) -> None:
    """Perfetto's JSON unless another format is named."""
    path = tmp_path / "trace.json"
    result = chimera(
        "simulate", "--schedule", "gems", "--depth", "4", "--micro-batches", "4", "--json", "--trace", path
    )
    assert json.loads(result.out)["schedule"] == "gems"
    assert "trace.json" in result.err
    assert json.loads(path.read_text())["traceEvents"]


def test_the_order_for_torch_is_printed_or_written(chimera: Shell, tmp_path: Path) -> None:
    """A line for each rank."""
    asked = (
        "simulate",
        "--schedule",
        "dapple",
        "--depth",
        "2",
        "--micro-batches",
        "2",
        "--format",
        "torch-csv",
    )
    printed = chimera(*asked)
    assert printed.out == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
    path = tmp_path / "order.csv"
    assert chimera(*asked, "--trace", path).code == 0
    assert path.read_text() == printed.out


ASKED = {"--schedule": "chimera", "--depth": "4", "--micro-batches": "8"}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"schedule": "zigzag"}, "choose from gpipe, dapple"),
        ({"schedule": ""}, "choose from"),
        ({"depth": "0"}, "greater than or equal to 1"),
        ({"depth": "-4"}, "-4"),
        ({"depth": "5"}, "even depth"),
        ({"depth": "4.5"}, "4.5"),
        ({"depth": "5000"}, "4096"),
        ({"depth": "1" + "0" * 30}, "4096"),
        ({"micro_batches": "0"}, "micro_batches"),
        ({"micro_batches": "-1"}, "-1"),
        ({"micro_batches": "3000000"}, "4,000,000"),
        ({"micro_batches": "1" + "0" * 30}, "4,000,000"),
        ({"iterations": "0"}, "iterations"),
        ({"iterations": "1000000"}, "4,000,000"),
        ({"buckets": "0"}, "buckets"),
        ({"buckets": "1000000"}, "4,000,000"),
        ({"pipe_pairs": "0"}, "pipe_pairs"),
        ({"pipe_pairs": "3"}, "3 does not divide 2"),
        ({"pipe_pairs": "2", "scaling": "doubling"}, "use scaling direct"),
        ({"scaling": "doubling", "micro_batches": "6"}, "D to divide N"),
        ({"scaling": "sideways"}, "halving"),
        ({"schedule": "gpipe", "scaling": "doubling"}, "chimera"),
        ({"schedule": "dapple", "pipe_pairs": "2"}, "pipe_pairs"),
        ({"chunks": "2"}, "interleaved"),
        ({"pending": "2"}, "chimera_split"),
        ({"schedule": "interleaved", "micro_batches": "6"}, "D to divide N"),
        ({"schedule": "interleaved", "chunks": "1000000000"}, "4,000,000"),
        ({"schedule": "chimera_split", "weight_gradient": "0"}, "between 0 and backward"),
        ({"schedule": "chimera_split", "weight_gradient": "2"}, "between 0 and backward"),
        ({"forward": "0"}, "forward"),
        ({"forward": "5e-324", "backward": "5e-324"}, "forward"),
        ({"forward": "-1"}, "forward"),
        ({"forward": "nan"}, "finite"),
        ({"backward": "inf"}, "finite"),
        ({"backward": "1e300"}, "backward"),
        ({"weight_gradient": "3"}, "part of backward"),
        ({"weight_gradient": "-1"}, "weight_gradient"),
        ({"hop_latency": "-0.1"}, "hop_latency"),
        ({"hop_latency": "nan"}, "hop_latency"),
        ({"sync_time": "nan"}, "sync_time"),
        ({"sync_policy": "late"}, "eager_opt"),
        ({"update_time": "-1"}, "update_time"),
        ({"trace": "/nowhere/trace.json"}, "/nowhere/trace.json"),
        ({"format": "perfetto"}, "--trace FILE"),
        ({"format": "yaml"}, "torch-csv"),
        ({"format": "torch-csv", "trace": "order.csv"}, "choose one with a single pipe"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_with_the_reason(
    chimera: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], wanted: str
) -> None:
    """Exit code 2, and no file is left behind."""
    monkeypatch.chdir(tmp_path)
    asked = ASKED | {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    check_refused(chimera("simulate", *(word for pair in asked.items() for word in pair), "--json"), wanted)
    assert not list(tmp_path.glob("*.csv"))
