"""Do the laws of schedules hold for all of them, D in 1..16 and N in 1..64? Minutes: `make grid`.

The suite samples the same variants; this file is not collected by itself.
"""

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

from tests.tuner.schedules import oracle
from tuner.errors import ScheduleError
from tuner.lower_bounds import lower_bounds
from tuner.memory_replay import StageBytes, replay_memory
from tuner.operation_costs import OperationCosts
from tuner.schedules.closed_forms import makespan as closed_form
from tuner.schedules.dry_run import dry_run
from tuner.schedules.generators import RECIPES, generate
from tuner.schedules.lowering import lower
from tuner.schedules.ordering import in_common_order
from tuner.schedules.program import Kind, Program
from tuner.schedules.validation import validate
from tuner.simulation import simulate
from tuner.timeline import Timeline

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

MOST_MICRO_BATCHES = 64
OPTIONS: dict[str, tuple[Any, ...]] = {
    "scaling": ("direct", "doubling", "halving"),
    "pipe_pairs": (1, 2, 4),
    "chunks": (2, 3),
    "pending": (1, 2, None),
}


def asked(scheme: str, depth: int) -> Iterator[dict[str, Any]]:
    """Every combination of options, legal or not, for all N."""
    names = sorted(RECIPES[scheme].options & OPTIONS.keys())
    for values in product(*(OPTIONS[name] for name in names)):
        for micro_batches in range(1, MOST_MICRO_BATCHES + 1):
            options = dict(zip(names, values, strict=True))
            yield {"scheme": scheme, "depth": depth, "micro_batches": micro_batches, **options}


@pytest.mark.parametrize("depth", range(1, 17))
@pytest.mark.parametrize("scheme", RECIPES)
def test_a_variant_keeps_all_laws_or_is_refused(scheme: str, depth: int) -> None:
    """Valid, without deadlock on any transport, in bounds, as long as its formula says, with nothing left."""
    legal, reasons = 0, []
    for variant in asked(scheme, depth):
        try:
            program = generate(**variant)
        except ScheduleError as refused:
            reasons.append(str(refused))
            continue
        legal += 1
        validate(program)
        lowered = lower(program)
        for mode in ("buffered", "rendezvous"):
            dry_run(lowered, mode)
        dry_run(in_common_order(lowered), "ordered")
        assert_collectives_agree(lowered)
        costs = OperationCosts.uniform(lowered)
        timeline = simulate(lowered, costs)
        assert_times(timeline, costs)
        assert_memory(program, timeline)
        expected = closed_form(**variant, forward=1.0, backward=2.0)
        assert expected is None or timeline.makespan_s == pytest.approx(expected)
    assert all(f"{scheme} with D = {depth}, N = " in reason for reason in reasons)
    assert legal or scheme not in {"gpipe", "dapple", "pipedream", "pipemare", "zb_h1", "zb_v"}


def assert_collectives_agree(program: Program) -> None:
    """Every pair of ranks starts the collectives that it shares in one order."""
    columns = program.columns
    syncs = columns.kind == Kind.SYNC
    keys = np.stack([columns.iteration, columns.micro_batch, columns.group, columns.part])[
        :, syncs
    ].T.tolist()
    orders: list[list[tuple[int, ...]]] = [[] for _ in range(program.depth)]
    for rank, key in zip(columns.rank[syncs].tolist(), keys, strict=True):
        orders[rank].append(tuple(key))
    for one, other in combinations(orders, 2):
        shared = set(one) & set(other)
        assert [key for key in one if key in shared] == [key for key in other if key in shared]


def assert_times(timeline: Timeline, costs: OperationCosts) -> None:
    """In bounds, and nothing overlaps on a rank."""
    bounds = lower_bounds(timeline, costs)
    assert timeline.makespan_s >= max(bounds.busiest_rank_s, bounds.longest_chain_s) - 1e-9
    same = (np.diff(timeline.compiled.rank) == 0) & timeline.computes[1:]
    assert (timeline.start_s[1:] >= timeline.done_s[:-2])[same].all()


def assert_memory(program: Program, timeline: Timeline) -> None:
    """Peaks as by plain loops, never negative and nothing left."""
    share = np.full(program.stages, 1.0 / program.chunks)
    memory = replay_memory(timeline, StageBytes(share, share))
    assert memory.alive_bytes.min() >= -1e-9
    assert memory.final_bytes() == pytest.approx(0.0, abs=1e-9)
    assert timeline.peak_live() / program.chunks == pytest.approx(oracle.peak_live(program))
