"""Is a rank as full at its fullest moment as the replay of its program makes it?"""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiles import library
from tests.tuner.factories import make_plan, make_request
from tests.tuner.schedules.test_schemes_and_programs import UPPER_BOUNDS, variants
from tuner.configuration import Recompute
from tuner.evaluated import Variant
from tuner.evaluation import Evaluator
from tuner.fullest_moment import Alive, fullest_moment
from tuner.inputs import gather
from tuner.memory_replay import StageBytes, replay_memory
from tuner.operation_costs import OperationCosts
from tuner.recomputed import recomputed
from tuner.schedules import SCHEMES, SYNCHRONOUS, Case
from tuner.schedules.program import Program
from tuner.schedules.scheme import Floats
from tuner.simulation import simulate
from tuner.space import Layout
from tuner.stage_costs import StageCosts

LAWS = settings(max_examples=25, deadline=None, derandomize=True)

RECOMPUTES: tuple[Recompute, ...] = ("none", "stage", "layer")


@cache
def known(name: str) -> tuple[tuple[Case, Program], ...]:
    """Every variant of a scheme up to D = 8 and N = 32."""
    return tuple(variants(SCHEMES[name]))


def stage_costs(count: int, seed: int, *, losses: bool = True) -> StageCosts:
    """Stages of random whole bytes, unlike each other in everything; transient bytes are equal."""
    random = np.random.default_rng(seed)

    def some(low: int, high: int) -> Floats:
        return random.integers(low, high, (1, count)).astype(np.float64)

    nothing, last = np.zeros((1, count)), np.zeros((1, count))
    last[0, -1] = 1.0 * losses
    kept = some(500, 2000)
    inputs = some(10, 50)
    return StageCosts(
        counts=((1,) * count,),
        forward_s=nothing,
        backward_s=nothing,
        weight_backward_s=nothing,
        split_s=nothing,
        recomputed_forward_s={},
        activation_bytes=kept,
        block_activation_bytes=kept,
        largest_block_bytes=kept,
        block_input_bytes=2 * inputs,
        stage_input_bytes=inputs,
        cut_bytes=inputs,
        loss_bytes=last * some(100, 200),
        loss_work_bytes=last * 1.0,
        transient_bytes=nothing + 7.0,
        largest_transient_bytes=nothing + 7.0,
        arriving_bytes=some(100, 1500),
        layer_backward_bytes=kept + 7.0,
        parameters=nothing,
        tied=(),
    )


def alive(name: str, stages: StageCosts, case: Case, recompute: Recompute) -> Alive:
    """By the moments of the schedule."""
    placement = SCHEMES[name].placement(case.depth, case.pipe_pairs)
    again = recomputed(stages, (recompute,))
    return fullest_moment(SCHEMES[name], stages, case, recomputed=again, placement=placement)


def replayed(name: str, program: Program, stages: StageCosts, recompute: Recompute) -> Floats:
    """Most bytes of every rank over the simulated iteration [w]; a whole backward recomputes and lets go."""
    kept = {
        "none": stages.activation_bytes,
        "stage": stages.stage_input_bytes,
        "layer": stages.block_input_bytes,
    }[recompute][0]
    again = 0.0 if recompute == "none" else stages.activation_bytes[0]
    working, arriving = again + 7.0, 0.0 * kept
    if SCHEMES[name].splits_backward:
        working, arriving = np.full_like(kept, 7.0), stages.arriving_bytes[0]
        arriving = arriving + (0.0 if recompute == "none" else stages.activation_bytes[0] - kept)
    timeline = simulate(program, OperationCosts.uniform(program))
    return replay_memory(timeline, StageBytes(kept, kept, working, arriving)).peak_bytes()


@pytest.mark.parametrize("name", [name for name in SYNCHRONOUS if not SCHEMES[name].splits_backward])
@LAWS
@given(data=st.data(), seed=st.integers(0, 2**16))
def test_a_rank_is_as_full_as_its_replayed_program(name: str, data: st.DataObject, seed: int) -> None:
    """To the byte, with stages that all differ; no backward is larger than the fullest moment allows for."""
    case, program = data.draw(st.sampled_from(known(name)))
    stages = stage_costs(program.stages, seed, losses=False)
    told = alive(name, stages, case, "none").total()[0]
    assert told.tolist() == replayed(name, program, stages, "none").tolist()


@pytest.mark.parametrize("name", SYNCHRONOUS)
@LAWS
@given(data=st.data(), seed=st.integers(0, 2**16), recompute=st.sampled_from(RECOMPUTES))
def test_no_rank_is_ever_fuller_than_it_is_said_to_be(
    name: str, data: st.DataObject, seed: int, recompute: Recompute
) -> None:
    """Under every recomputation, and with split backwards whatever waits for its weight gradient."""
    case, program = data.draw(st.sampled_from(known(name)))
    stages = stage_costs(program.stages, seed, losses=False)
    told = alive(name, stages, case, recompute).total()[0]
    assert (told >= replayed(name, program, stages, recompute)).all()


@pytest.mark.parametrize("name", [name for name in SYNCHRONOUS if name not in UPPER_BOUNDS])
def test_micro_batches_alive_are_exact_where_stages_differ(name: str) -> None:
    """Activations alone, of stages that are not fullest together: the moments are those of the program."""
    for number, (case, program) in enumerate(known(name)):
        kept = stage_costs(program.stages, seed=number).activation_bytes[0]
        timeline = simulate(program, OperationCosts.uniform(program))
        scheme = SCHEMES[name]
        placement = scheme.placement(case.depth, case.pipe_pairs)
        most = [
            max(
                combine(
                    [float((live[0] * kept)[pipe, stage]) for pipe, stage in np.argwhere(placement == rank)]
                )
                for live in scheme.moments(case)
            )
            for rank in range(case.depth)
            for combine in [sum if scheme.pipes_overlap else max]
        ]
        assert most == replay_memory(timeline, StageBytes(kept, kept)).peak_bytes().tolist(), case


@pytest.mark.parametrize("name", [name for name in SYNCHRONOUS if SCHEMES[name].splits_backward])
def test_weight_gradients_that_wait_hold_what_was_recomputed(name: str) -> None:
    """At most all that waits is held again; without waiting ones recomputation would hold one stage."""
    for case, program in known(name):
        stages = stage_costs(program.stages, seed=1)
        again = alive(name, stages, case, "stage").recomputed[0]
        one = max(stages.activation_bytes[0] - stages.stage_input_bytes[0])
        assert 0 < again.max() <= one * case.depth * program.chunks * 2
        assert not alive(name, stages, case, "none").recomputed.any()


@pytest.mark.parametrize("name", sorted(SCHEMES))
@pytest.mark.parametrize("recompute", RECOMPUTES)
def test_a_larger_micro_batch_needs_no_less(name: str, recompute: Recompute) -> None:
    """At an equal number of micro-batches, on every rank."""
    scheme = SCHEMES[name]
    count = 1 if name == "pipedream" else 16
    totals = []
    for size in (1, 2, 4, 8):
        request = make_request(devices=4, mini_batch_size=count * size, partition="even")
        evaluator = Evaluator(gather(request, library))
        variant = Variant(scheme, Layout(1, 2), "direct", 1, recompute)
        evaluated = evaluator.evaluate(variant, np.array([size]))
        assert evaluated is not None
        assert evaluated.memory.total().tolist() == evaluated.total_bytes.tolist()
        totals.append(evaluated.total_bytes[0])
    assert (np.diff(np.stack(totals), axis=0) > 0).all()


@pytest.mark.parametrize("schedule", ["zb_h1", "zb_v", "dualpipe", "chimera_split"])
def test_split_schedules_may_recompute(schedule: str) -> None:
    """It costs time, and saves what does not wait for its weight gradient."""
    options: dict[str, Any] = {
        "model": "gpt2-small", "schedules": schedule, "depth": 4, "width": 1, "micro_batch_size": 1,
        "devices": 4,
    }  # fmt: skip
    plans = [make_plan(**options, recompute=recompute).chosen for recompute in RECOMPUTES]
    chosen = [plan for plan in plans if plan is not None]
    assert [plan.recompute for plan in chosen] == list(RECOMPUTES)
    without, stage, layer = chosen
    assert stage.predicted.iteration_s > without.predicted.iteration_s
    assert layer.predicted.iteration_s > without.predicted.iteration_s
    assert max(rank.recompute_bytes for rank in stage.memory) > 0
    assert stage.peak_memory_bytes <= without.peak_memory_bytes
