"""Does every generator give the schedule that its name promises?"""

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given, reject, settings

from tests.tuner.schedules.oracle import makespan, peak_live, spans, unit_times
from tests.tuner.schedules.variants import variants
from tuner.errors import ScheduleError
from tuner.schedules.closed_forms import makespan as closed_form
from tuner.schedules.generators import RECIPES, StageTimes, generate
from tuner.schedules.program import Kind, Program
from tuner.schedules.validation import validate

GOLDEN = json.loads((Path(__file__).parent / "golden_schedules.json").read_text(encoding="utf-8"))["cases"]
LAWS = settings(max_examples=60)
OPTION_NAMES = ("scaling", "pipe_pairs", "chunks", "pending")


def made(variant: dict[str, Any]) -> Program:
    """The program of a variant, if it is legal."""
    try:
        program = generate(**variant)
    except ScheduleError:
        event(f"{variant['scheme']} refused")
        reject()
    event(variant["scheme"])
    return program


def words(program: Program, rank: int) -> str:
    """The order of a rank: kind, pipe, micro-batch; fused pairs joined."""
    return " ".join(
        "&".join(f"{op.kind.name}{op.pipe}.{op.micro_batch}" for op in step) for step in program.ranks[rank]
    )


@pytest.mark.parametrize("case", GOLDEN)
def test_makespans_and_peaks_are_the_golden_ones(case: dict[str, Any]) -> None:
    """Exact for F:B = 1:1, 1:2 and 1:3, and the peak of every rank."""
    options = {name: case[name] for name in OPTION_NAMES if name in case}
    program = generate(case["schedule"], depth=case["depth"], micro_batches=case["micro_batches"], **options)
    validate(program)
    assert peak_live(program) == case["peak_live_micro_batches"]
    for ratio, expected in case["makespan"].items():
        forward, backward = map(int, ratio.split(":"))
        assert makespan(program, unit_times(forward=forward, backward=backward)) == expected


@LAWS
@given(variants())
def test_a_variant_is_a_valid_program_or_a_clear_error(variant: dict[str, Any]) -> None:
    """Every micro-batch passes every stage once each way, and no rank waits for ever."""
    program = made(variant)
    validate(program)
    times = unit_times(forward=2, backward=3, weight_gradient=1, chunks=program.chunks)
    took = makespan(program, times)
    work = program.micro_batches * program.iterations * (times[Kind.F] + times[Kind.B]) * program.chunks
    assert took >= work / program.pipes
    assert took >= program.stages * (times[Kind.F] + times[Kind.I])


@LAWS
@given(variants())
def test_closed_forms_are_exact_where_there_is_one(variant: dict[str, Any]) -> None:
    """For F:B = 1:2, 2:3 and 3:2."""
    program = made({**variant, "iterations": 1})
    for forward, backward in ((1, 2), (2, 3), (3, 2)):
        arguments = {name: value for name, value in variant.items() if name != "iterations"}
        expected = closed_form(**arguments, forward=forward, backward=backward)
        assume(expected is not None)
        times = unit_times(forward=forward, backward=backward, chunks=program.chunks)
        assert float(makespan(program, times)) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("scheme", RECIPES)
def test_an_iteration_is_repeated_or_runs_on(scheme: str) -> None:
    """Synchronous schemes repeat one iteration with the next weights; the period of others is N(F + B)."""
    once, twice, thrice = (generate(scheme, depth=4, micro_batches=8, iterations=k) for k in (1, 2, 3))
    if RECIPES[scheme].synchronous:
        for row, doubled in zip(once.ranks, twice.ranks, strict=True):
            again = tuple(tuple(op._replace(iteration=1, version=1) for op in step) for step in row)
            assert doubled == row + again
    else:
        times = unit_times()
        assert makespan(thrice, times) - makespan(twice, times) == 8 * 3


ILLEGAL = [
    ({"scheme": "gpipes"}, "there is no schedule gpipes"),
    ({"scheme": "ZBV"}, r"ZBV \(ZBV is zb_v here\)"),
    ({"scheme": "gpipe", "depth": 0}, "depth must be at least 1"),
    ({"scheme": "gpipe", "micro_batches": 0}, "micro_batches must be at least 1"),
    ({"scheme": "gpipe", "iterations": 0}, "iterations must be at least 1"),
    ({"scheme": "dapple", "scaling": "doubling"}, "no option scaling: .* choose from chimera"),
    ({"scheme": "dapple", "pipe_pairs": 2}, "no option pipe_pairs"),
    ({"scheme": "dapple", "chunks": 2}, "no option chunks: .* interleaved, zb_v"),
    ({"scheme": "zb_h1", "pending": 2}, "no option pending: .* chimera_split"),
    ({"scheme": "gems", "depth": 3}, "even depth"),
    ({"scheme": "chimera", "depth": 5}, "even depth"),
    ({"scheme": "chimera_split", "depth": 1}, "even depth"),
    ({"scheme": "chimera", "depth": 12, "pipe_pairs": 4}, "4 does not divide 6"),
    ({"scheme": "chimera", "pipe_pairs": 0}, "pipe_pairs must be at least 1"),
    ({"scheme": "chimera", "pipe_pairs": 2, "scaling": "halving"}, "use scaling direct"),
    ({"scheme": "chimera", "micro_batches": 6, "scaling": "doubling"}, "needs D to divide N"),
    ({"scheme": "chimera_split", "pending": 0}, "pending must be at least 1"),
    ({"scheme": "chimera_split", "times": StageTimes([1, 1], [1, 1], [1, 1])}, "for every stage"),
    ({"scheme": "chimera_split", "times": StageTimes([0] * 4, [1] * 4, [1] * 4)}, "above 0 for"),
    ({"scheme": "chimera_split", "times": StageTimes([1] * 4, [float("nan")] * 4, [1] * 4)}, "at least 0"),
    ({"scheme": "interleaved", "micro_batches": 6}, "D to divide N"),
    ({"scheme": "interleaved", "chunks": 1}, "at least 2 chunks"),
    ({"scheme": "zb_v", "chunks": 3}, "2 chunks, not 3"),
    ({"scheme": "dualpipe", "depth": 3}, "even depth"),
    ({"scheme": "dualpipe", "micro_batches": 6}, "at least 2D = 8"),
    ({"scheme": "dualpipe", "micro_batches": 9}, "even number"),
    ({"scheme": "pipedream_2bw", "micro_batches": 3}, "N >= D"),
]


@pytest.mark.parametrize(("asked", "message"), ILLEGAL)
def test_an_illegal_variant_says_what_is_wrong(asked: dict[str, Any], message: str) -> None:
    """With the schedule, the numbers and what to do."""
    with pytest.raises(ScheduleError, match=message):
        generate(**{"depth": 4, "micro_batches": 8, **asked})


@pytest.mark.parametrize("scheme", ["gpipe", "dapple", "zb_h1", "pipedream", "pipedream_2bw", "pipemare"])
def test_one_rank_runs_without_a_bubble(scheme: str) -> None:
    """D = 1 is the schedule without a pipeline."""
    assert makespan(generate(scheme, depth=1, micro_batches=5), unit_times()) == 15


def test_chimera_runs_the_order_of_the_papers_figure() -> None:
    """D = N = 4, the first rank and one of the middle."""
    program = generate("chimera", depth=4, micro_batches=4)
    assert words(program, 0) == "F0.0 F0.1 F1.2 B1.2 F1.3 B1.3 B0.0 B0.1"
    assert words(program, 1) == "F0.0 F1.2 F0.1 F1.3 B1.2 B0.0 B1.3 B0.1"


def test_doubled_pairs_alternate_pipes_and_an_odd_unit_comes_last() -> None:
    """Down (0, 1), (4, 5); up (2, 3), (6, 7); then the first half of the rest down."""
    program = generate("chimera", depth=4, micro_batches=12, scaling="doubling")
    forwards = {
        pipe: [op.micro_batch for (op,) in program.ranks[0] if op.kind == Kind.F and op.pipe == pipe]
        for pipe in range(2)
    }
    assert forwards == {0: [0, 1, 4, 5, 8, 9], 1: [2, 3, 6, 7, 10, 11]}


def test_pipedream_keeps_a_version_for_each_live_micro_batch() -> None:
    """A backward reads what its forward read, and stage s reads D − s versions at a time."""
    program = generate("pipedream", depth=4, micro_batches=2, iterations=6)
    for stage, steps in enumerate(program.ranks):
        alive: Counter[int] = Counter()
        most = 0
        for (op,) in steps:
            number = op.iteration * 2 + op.micro_batch
            assert op.version == max(0, number - (4 - stage) + 1)
            alive[op.version] += 1 if op.kind == Kind.F else -1
            alive += Counter()
            most = max(most, len(alive))
        assert program.updates == "micro_batch"
        assert most == RECIPES["pipedream"].weight_versions(4)[stage]


def test_pipedream_2bw_reads_the_last_version_but_one() -> None:
    """Mini-batch b reads version max(b − 1, 0) at every stage, which is there by then."""
    program = generate("pipedream_2bw", depth=4, micro_batches=4, iterations=4)
    for steps in program.ranks:
        finished = 0
        for (op,) in steps:
            assert op.version == max(op.iteration - 1, 0) <= finished // 4
            finished += op.kind == Kind.B


def test_pipemare_reads_whatever_is_newest() -> None:
    """Backwards of mini-batch b read version b; forwards of stage s are 2(D − s) − 1 slots behind."""
    program = generate("pipemare", depth=4, micro_batches=2, iterations=6)
    for stage, steps in enumerate(program.ranks):
        for (op,) in steps:
            number = op.iteration * 2 + op.micro_batch
            forward = max(0, number - (4 - stage) + 1) // 2
            assert op.version == (forward if op.kind == Kind.F else op.iteration)


@pytest.mark.parametrize(("pending", "expected"), [(1, 54), (2, 53), (3, 52), (4, 51), (8, 51), (None, 51)])
def test_chimera_split_trades_pending_parts_for_bubbles(pending: int | None, expected: int) -> None:
    """3N + max(D − 1 − c, D/2 − 1) at D = 8, N = 16, with D + c − 1 micro-batches at most."""
    program = generate("chimera_split", depth=8, micro_batches=16, pending=pending)
    assert makespan(program, unit_times()) == expected
    assert max(peak_live(program)) == 8 + (4 if pending is None else pending) - 1


def test_chimera_split_places_its_parts_by_the_times_it_is_given() -> None:
    """At F = 1, I = 3, W = 2 the order of these times takes 113, that of equal times 120."""
    times = StageTimes([1] * 8, [3] * 8, [2] * 8)
    fitted = generate("chimera_split", depth=8, micro_batches=16, times=times)
    validate(fitted)
    clock = unit_times(forward=1, backward=5, weight_gradient=2)
    assert makespan(fitted, clock) == 113
    assert makespan(generate("chimera_split", depth=8, micro_batches=16), clock) == 120


def test_dualpipe_fuses_a_forward_with_a_backward_of_the_other_direction() -> None:
    """D = 8, N = 20 at F&B = 3 takes 66, with D + 1 micro-batches alive."""
    program = generate("dualpipe", depth=8, micro_batches=20)
    fused = [step for steps in program.ranks for step in steps if len(step) > 1]
    assert {(step[0].kind, step[1].kind) for step in fused} == {(Kind.F, Kind.B)}
    assert all(step[0].pipe != step[1].pipe for step in fused)
    assert makespan(program, unit_times()) == 66
    assert set(peak_live(program)) == {9.0}


def test_zb_v_leaves_no_rank_idle_between_its_first_and_last_step() -> None:
    """At F = I = W, from N = 2D − 1 on, with D micro-batches alive."""
    for depth in (1, 2, 5, 8):
        program = generate("zb_v", depth=depth, micro_batches=2 * depth + 3)
        times = unit_times(chunks=2)
        assert {end - start for start, end in spans(program, times)} == {Fraction(3 * (2 * depth + 3))}
        assert max(peak_live(program)) == depth


def test_interleaved_shrinks_the_bubble_by_its_chunks() -> None:
    """3(D − 1)/v beyond 3N, with D + (D − 1)/v micro-batches alive."""
    for chunks in (2, 3, 4):
        program = generate("interleaved", depth=8, micro_batches=16, chunks=chunks)
        assert makespan(program, unit_times(chunks=chunks)) == 48 + Fraction(21, chunks)
        assert max(peak_live(program)) == pytest.approx(8 + 7 / chunks)
