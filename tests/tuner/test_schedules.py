"""Do the closed forms of every schedule agree with running its order?"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner import orders
from tests.tuner.orders import Orders, Run, simulate
from tuner.configuration import Scaling
from tuner.errors import UnsupportedOptionError
from tuner.schedules import SCHEMES, SYNCHRONOUS, Case, Scheme, find_scheme

GOLDEN = Path(__file__).parents[3] / "shared" / "reference" / "golden_schedules.json"

LAWS = settings(max_examples=40, deadline=None, derandomize=True)

DEPTHS = st.integers(2, 16)
EVEN_DEPTHS = st.integers(1, 8).map(lambda half: 2 * half)
TIMES = st.floats(0.2, 5)
SINGLE: dict[str, Callable[[int, int], Orders]] = {"gpipe": orders.gpipe, "dapple": orders.dapple}


def make_case(
    depth: int,
    micro_batches: int,
    *,
    forward_s: float = 1.0,
    backward_s: float = 2.0,
    scaling: Scaling = "direct",
    pairs: int = 1,
) -> Case:
    """One case at one micro-batch size."""
    return Case(
        depth=depth,
        micro_batches=np.array([micro_batches]),
        scaling=scaling,
        pipe_pairs=pairs,
        forward_s=np.array([forward_s]),
        backward_s=np.array([backward_s]),
    )


def makespan(scheme: Scheme, case: Case) -> float:
    """C_f·F + C_b·B."""
    path = scheme.critical_path(case)
    return float((path.forwards * case.forward_s + path.backwards * case.backward_s)[0])


def peak_live(scheme: Scheme, case: Case) -> list[float]:
    """Micro-batches alive on each rank: its stages together, or the most of them where pipes take turns."""
    placement, live = scheme.placement(case.depth, case.pipe_pairs), scheme.live(case)[0]
    together = sum if scheme.pipes_overlap else max
    return [float(together(live[placement == rank].tolist())) for rank in range(case.depth)]


def golden_cases() -> list[Any]:
    """One parameter for each golden case; a skipped one where there are none."""
    if not GOLDEN.exists():
        return [pytest.param({}, marks=pytest.mark.skip(reason=f"no {GOLDEN.name} beside this checkout"))]
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    return [pytest.param(case, id="-".join(map(str, _golden_key(case)))) for case in cases]


def _golden_key(case: dict[str, Any]) -> tuple[str, int, int, Scaling, int]:
    scaling, pairs = case.get("scaling", "direct"), case.get("pipe_pairs", 1)
    return case["schedule"], case["depth"], case["micro_batches"], scaling, pairs


@pytest.mark.parametrize("golden", golden_cases())
def test_closed_forms_give_the_golden_makespans_and_peaks(golden: dict[str, Any]) -> None:
    """Exact where units are whole; a short last unit is bounded from above; odd doubling is refused."""
    name, depth, micro_batches, scaling, pairs = _golden_key(golden)
    scheme = find_scheme(name)
    if scheme.illegal(depth, micro_batches, scaling=scaling, pipe_pairs=pairs):
        assert micro_batches % (2 * depth if scaling == "doubling" else depth) or micro_batches == depth
        return
    for ratio, expected in golden["makespan"].items():
        forward, backward = map(float, ratio.split(":"))
        case = make_case(
            depth, micro_batches, forward_s=forward, backward_s=backward, scaling=scaling, pairs=pairs
        )
        found = makespan(scheme, case)
        if name == "chimera" and micro_batches % depth:
            assert expected * (1 - 1e-12) <= found <= 1.04 * expected
        else:
            assert found == pytest.approx(expected)
        assert peak_live(scheme, case) == golden["peak_live_micro_batches"]


@pytest.mark.parametrize("name", SINGLE)
@LAWS
@given(depth=DEPTHS, micro_batches=st.integers(1, 40), forward_s=TIMES, backward_s=TIMES)
def test_gpipe_and_dapple_take_n_plus_d_minus_1_steps(
    name: str, depth: int, micro_batches: int, forward_s: float, backward_s: float
) -> None:
    """(N + D − 1)(F + B) at any F, B and N, and as many micro-batches alive as the order keeps."""
    run = simulate(SINGLE[name](depth, micro_batches), forward_s=forward_s, backward_s=backward_s)
    case = make_case(depth, micro_batches, forward_s=forward_s, backward_s=backward_s)
    assert_exact(find_scheme(name), case, run)


@LAWS
@given(depth=EVEN_DEPTHS, micro_batches=st.integers(1, 24), forward_s=TIMES, backward_s=TIMES)
def test_gems_passes_every_backward_alone(
    depth: int, micro_batches: int, forward_s: float, backward_s: float
) -> None:
    """B·D·N + F·(N + D − 1) where a backward is no shorter than a forward."""
    run = simulate(orders.gems(depth, micro_batches), forward_s=forward_s, backward_s=backward_s)
    scheme = find_scheme("gems")
    case = make_case(depth, micro_batches, forward_s=forward_s, backward_s=backward_s)
    assert peak_live(scheme, case) == run.peak_live
    if backward_s >= forward_s:
        assert makespan(scheme, case) == pytest.approx(run.makespan)
    else:
        assert makespan(scheme, case) <= run.makespan * (1 + 1e-9)


@LAWS
@given(half=st.integers(1, 8), units=st.integers(1, 6), forward_s=TIMES, backward_s=TIMES, data=st.data())
def test_direct_concatenation_is_exact_for_whole_units(
    half: int, units: int, forward_s: float, backward_s: float, data: st.DataObject
) -> None:
    """N = K·D with any number of pipes that divides, backwards shorter than forwards included."""
    pairs = data.draw(st.sampled_from([f for f in range(1, half + 1) if half % f == 0]))
    depth, micro_batches = 2 * half, 2 * half * units
    run = simulate(
        orders.chimera(depth, micro_batches, pairs=pairs), forward_s=forward_s, backward_s=backward_s
    )
    case = make_case(depth, micro_batches, forward_s=forward_s, backward_s=backward_s, pairs=pairs)
    assert_exact(find_scheme("chimera"), case, run)


@LAWS
@given(depth=EVEN_DEPTHS, micro_batches=st.integers(1, 80), forward_s=TIMES, ratio=st.floats(0.2, 5))
def test_a_short_last_unit_is_bounded_from_above(
    depth: int, micro_batches: int, forward_s: float, ratio: float
) -> None:
    """Exact for N < D and where backwards are no longer than forwards; else at most 4 % above the order."""
    backward_s = ratio * forward_s
    run = simulate(orders.chimera(depth, micro_batches), forward_s=forward_s, backward_s=backward_s)
    case = make_case(depth, micro_batches, forward_s=forward_s, backward_s=backward_s)
    scheme = find_scheme("chimera")
    most = 1.0 if micro_batches <= depth or ratio <= 1 else 1.04
    assert 1 - 1e-9 <= makespan(scheme, case) / run.makespan <= most + 1e-9
    assert peak_live(scheme, case) == run.peak_live


@LAWS
@given(depth=EVEN_DEPTHS, doubled=st.integers(1, 4), forward_s=TIMES, backward_s=TIMES)
def test_forward_doubling_is_exact_for_an_even_number_of_units(
    depth: int, doubled: int, forward_s: float, backward_s: float
) -> None:
    """N = K·D, K even: pairs of forwards, single backwards."""
    run = simulate(
        orders.chimera_pairs(depth, doubled, halving=False), forward_s=forward_s, backward_s=backward_s
    )
    case = make_case(
        depth, 2 * depth * doubled, forward_s=forward_s, backward_s=backward_s, scaling="doubling"
    )
    assert_exact(find_scheme("chimera"), case, run)


@LAWS
@given(depth=EVEN_DEPTHS, units=st.integers(2, 6), forward_s=TIMES, backward_s=TIMES)
def test_backward_halving_is_exact(depth: int, units: int, forward_s: float, backward_s: float) -> None:
    """N = K·D: the doubling order with one forward for a pair and half a backward for each of it."""
    run = simulate(
        orders.chimera_pairs(depth, units, halving=True), forward_s=forward_s, backward_s=backward_s
    )
    case = make_case(depth, depth * units, forward_s=forward_s, backward_s=backward_s, scaling="halving")
    assert_exact(find_scheme("chimera"), case, run)


def assert_exact(scheme: Scheme, case: Case, run: Run) -> None:
    """Makespan, and micro-batches alive on every rank and at every stage, as the order gives them."""
    assert makespan(scheme, case) == pytest.approx(run.makespan)
    assert peak_live(scheme, case) == run.peak_live
    live = scheme.live(case)[0]
    for (pipe, stage), most in run.peak_live_at.items():
        assert live[pipe, stage] == most


@given(depth=EVEN_DEPTHS, units=st.integers(1, 8))
@LAWS
def test_the_bubbles_are_those_of_table_2(depth: int, units: int) -> None:
    """(D−2)/(2N+D−2) for Chimera at F = B, (D−1)/(N+D−1) for GPipe and DAPPLE at any F, B."""
    micro_batches = units * depth
    chimera = make_case(depth, micro_batches, backward_s=1.0)
    idle = 1 - 2 * micro_batches / makespan(find_scheme("chimera"), chimera)
    assert idle == pytest.approx((depth - 2) / (2 * micro_batches + depth - 2), abs=1e-12)
    for name in SINGLE:
        case = make_case(depth, micro_batches, backward_s=1.7)
        idle = 1 - 2.7 * micro_batches / makespan(find_scheme(name), case)
        assert idle == pytest.approx((depth - 1) / (micro_batches + depth - 1))


@given(half=st.integers(1, 8), data=st.data())
@LAWS
def test_every_rank_holds_one_stage_of_every_pipe(half: int, data: st.DataObject) -> None:
    """2f pipes, each a permutation of the ranks; with two pipes rank w holds the stages w and D − 1 − w."""
    depth = 2 * half
    pairs = data.draw(st.sampled_from([f for f in range(1, half + 1) if half % f == 0]))
    placement = find_scheme("chimera").placement(depth, pairs)
    assert placement.shape == (2 * pairs, depth)
    assert all(sorted(pipe) == list(range(depth)) for pipe in placement.tolist())
    for pipe, down, up in zip(range(pairs), placement[::2], placement[1::2], strict=True):
        assert down.tolist() == [(stage + pipe * depth // pairs) % depth for stage in range(depth)]
        assert up.tolist() == down.tolist()[::-1]


@given(half=st.integers(1, 8), micro_batches=st.integers(1, 60), data=st.data())
@LAWS
def test_the_pipes_share_all_micro_batches(half: int, micro_batches: int, data: st.DataObject) -> None:
    """The shares sum to N and differ by at most one for each unit; the first pipes take the remainder."""
    pairs = data.draw(st.sampled_from([f for f in range(1, half + 1) if half % f == 0]))
    for name in ("chimera", "dapple", "gpipe", "gems"):
        pipes = pairs if name == "chimera" else 1
        shares = find_scheme(name).shares(make_case(2 * half, micro_batches, pairs=pipes))[0].tolist()
        assert sum(shares) == micro_batches
        assert shares == sorted(shares, reverse=True)


def test_only_synchronous_schedules_are_considered_by_default() -> None:
    """Asynchronous schedules change the training, so they must be named."""
    assert {"chimera", "dapple", "gpipe", "gems"} <= set(SYNCHRONOUS)
    assert not {"pipedream", "pipedream_2bw", "pipemare"} & set(SYNCHRONOUS)
    assert not any(find_scheme(name).synchronous for name in set(SCHEMES) - set(SYNCHRONOUS))


@pytest.mark.parametrize("name", ["chimera", "gems"])
def test_two_way_schedules_need_an_even_depth(name: str) -> None:
    """The reason holds the depth."""
    scheme = find_scheme(name)
    assert scheme.illegal_depth(4) is None
    assert "D = 5" in str(scheme.illegal_depth(5))


def test_a_schedule_that_cannot_be_planned_yet_is_named() -> None:
    """With those that can."""
    with pytest.raises(UnsupportedOptionError, match=r"pipemare cannot be planned yet; .*chimera.*dapple"):
        find_scheme("pipemare")


@pytest.mark.parametrize(
    ("name", "micro_batches", "reason"),
    [("pipedream", 2, "N = 1, not 2"), ("pipedream_2bw", 3, "N = 3 < D = 4")],
)
def test_asynchronous_schedules_say_which_micro_batches_they_run(
    name: str, micro_batches: int, reason: str
) -> None:
    """PipeDream updates after every micro-batch, 2BW needs at least D of them."""
    told = find_scheme(name).illegal(4, micro_batches, scaling="direct", pipe_pairs=1)
    assert reason in str(told)


def test_pipedream_keeps_a_weight_version_for_each_micro_batch_in_flight() -> None:
    """D − s at stage s; 2BW keeps two everywhere."""
    assert find_scheme("pipedream").weight_versions(4).tolist() == [4, 3, 2, 1]
    assert find_scheme("pipedream_2bw").weight_versions(4).tolist() == [2, 2, 2, 2]
    assert find_scheme("pipedream").live(make_case(4, 1))[0].tolist() == [[4, 3, 2, 1]]
