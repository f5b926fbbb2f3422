"""Is the replayed memory what plain loops over the steps give, and is nothing left at the end?"""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from tests.tuner.schedules.variants import variants
from tuner.errors import ScheduleError
from tuner.memory_replay import MemoryReplay, StageBytes, replay_memory
from tuner.operation_costs import OperationCosts
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import lower
from tuner.schedules.merging import merge
from tuner.schedules.program import Kind, Program
from tuner.simulation import simulate

LAWS = settings(max_examples=8, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def replayed(program: Program, stage_bytes: StageBytes) -> MemoryReplay:
    """The memory of a program under equal costs."""
    lowered = lower(program)
    return replay_memory(simulate(lowered, OperationCosts.uniform(lowered)), stage_bytes)


def uneven_bytes(stages: int, seed: int) -> StageBytes:
    """Even numbers of bytes, so that halves are whole."""
    random = np.random.default_rng(seed)
    activations = 2.0 * random.integers(500, 1000, stages)
    return StageBytes(
        activations, 2.0 * random.integers(0, 500, stages), 2.0 * random.integers(0, 100, stages)
    )


def peaks_by_hand(program: Program, stage_bytes: StageBytes) -> list[float]:
    """Most bytes of each rank, step by step: what a step takes, then what it gives back."""
    peaks = []
    for steps in program.ranks:
        alive = peak = 0.0
        for step in steps:
            for op in step:
                if op.kind == Kind.F:
                    alive += stage_bytes.activations[op.stage]
                elif op.kind in {Kind.B, Kind.I}:
                    alive += stage_bytes.working[op.stage]
            peak = max(peak, alive)
            for op in step:
                kept, pending = stage_bytes.activations[op.stage], stage_bytes.pending[op.stage]
                back = {Kind.F: 0.0, Kind.B: kept / op.parts, Kind.I: kept - pending, Kind.W: pending}
                alive -= back[op.kind]
                if op.kind in {Kind.B, Kind.I}:
                    alive -= stage_bytes.working[op.stage]
        assert alive == 0
        peaks.append(peak)
    return peaks


@pytest.mark.parametrize("scheme", RECIPES)
@LAWS
@given(data=st.data())
def test_peaks_are_those_of_plain_loops(scheme: str, data: st.DataObject) -> None:
    """Never negative, and nothing left at the end."""
    try:
        program = generate(**data.draw(variants(scheme)))
    except ScheduleError:
        reject()
    stage_bytes = uneven_bytes(program.stages, data.draw(st.integers(0, 2**16)))
    memory = replayed(program, stage_bytes)
    assert memory.peak_bytes().tolist() == peaks_by_hand(program, stage_bytes)
    assert (memory.alive_bytes >= 0).all()
    assert not memory.final_bytes().any()


@pytest.mark.parametrize("scheme", RECIPES)
def test_time_does_not_run_backwards(scheme: str) -> None:
    """On each rank the changes stand in the order in which they happen."""
    program = generate(scheme, depth=4, micro_batches=8)
    memory = replayed(program, uneven_bytes(program.stages, seed=0))
    for rank in range(4):
        assert (np.diff(memory.time_s[memory.rank == rank]) >= 0).all()


def test_equal_bytes_count_live_micro_batches() -> None:
    """Chimera at D = 8: D/2 + 1 + min(w, D − 1 − w)."""
    ones = StageBytes(np.ones(8), np.zeros(8))
    memory = replayed(generate("chimera", depth=8, micro_batches=16), ones)
    assert memory.peak_bytes().tolist() == [5, 6, 7, 8, 8, 7, 6, 5]


@pytest.mark.parametrize(("pending", "expected"), [(0.0, 8.0), (1.0, 11.0)])
def test_pending_weight_gradients_keep_their_share(pending: float, expected: float) -> None:
    """The split Chimera at D = 8 lets D/2 of them wait: D + (c − 1) times their share."""
    stage_bytes = StageBytes(np.ones(8), np.full(8, pending))
    memory = replayed(generate("chimera_split", depth=8, micro_batches=16), stage_bytes)
    assert memory.peak_bytes().max() == expected


def test_a_half_backward_gives_back_half() -> None:
    """Chimera at D = 2: whole backwards, and backwards in halves."""
    four = StageBytes(np.full(2, 4.0), np.zeros(2))
    whole = replayed(generate("chimera", depth=2, micro_batches=2), four)
    assert whole.alive_bytes[whole.rank == 0].tolist() == [4, 8, 4, 0]
    halved = replayed(generate("chimera", depth=2, micro_batches=4, scaling="halving"), four)
    assert set(np.diff(halved.alive_bytes[halved.rank == 0]).tolist()) == {4.0, -2.0}


def test_a_backward_needs_its_working_bytes_while_it_runs() -> None:
    """1F1B on one rank: 10 kept, 3 more during the backward."""
    program = generate("dapple", depth=1, micro_batches=2)
    memory = replayed(program, StageBytes(np.array([10.0]), np.zeros(1), np.array([3.0])))
    assert memory.time_s.tolist() == [0, 1, 3, 3, 4, 6]
    assert memory.alive_bytes.tolist() == [10, 13, 0, 10, 13, 0]


def test_two_jobs_need_their_memory_together() -> None:
    """Taking turns, the second job's activations come while the first waits; each pipe has its own bytes."""
    jobs: list[Any] = [lower(generate("dapple", depth=2, micro_batches=4)) for _ in range(2)]
    merged = merge(jobs)
    timeline = simulate(merged, OperationCosts.uniform(merged))
    own = StageBytes(np.array([[1.0, 1.0], [5.0, 7.0]]), np.zeros(2))
    memory = replay_memory(timeline, own)
    assert memory.peak_bytes().tolist() == [10.0, 7.0]
    assert not memory.final_bytes().any()
