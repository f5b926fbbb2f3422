"""Does it pay to start all-reduces before the compute has ended?"""

from dataclasses import replace

import numpy as np
import pytest

from tuner.operation_costs import OperationCosts
from tuner.schedules.generators import generate
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.program import Program
from tuner.schedules.updates import Synchronization, SyncPolicy
from tuner.simulation import simulate

POLICIES: tuple[SyncPolicy, ...] = ("lazy", "eager", "eager_opt")


def makespans(compute: Program, *, sync: float, head: float = 1.0, **machine: float) -> list[float]:
    """Of every policy; the last stage's all-reduce is `head` times as long as the others'."""
    found = []
    for policy in POLICIES:
        program = lower(compute, Lowering(Synchronization(policy)))
        costs = OperationCosts.uniform(program, sync_s=sync)
        longer = np.where(np.arange(compute.stages) == compute.stages - 1, head, 1.0)
        found.append(simulate(program, replace(costs, sync_s=costs.sync_s * longer, **machine)).makespan_s)
    return found


@pytest.mark.parametrize("depth", [4, 8])
@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("lanes", [None, 1])
def test_an_early_start_is_never_slower_where_nothing_slows_down(
    depth: int, units: int, lanes: int | None
) -> None:
    """Whatever the all-reduces take; on one link it is faster."""
    compute = generate("chimera", depth=depth, micro_batches=units * depth)
    for sync in (0.5, 3.0, 10.0):
        lazy, eager, opt = makespans(compute, sync=sync, head=2.0, lanes=lanes)  # type: ignore[arg-type]
        assert max(eager, opt) <= lazy + 1e-9
        assert lanes is None or opt < lazy


def test_lazy_wins_where_collectives_slow_computation_that_all_wait_for() -> None:
    """Equal stages on separate links: nothing is gained, and eager-opt loses least."""
    compute = generate("chimera", depth=8, micro_batches=8)
    lazy, eager, opt = makespans(compute, sync=12.0, slow_down=0.3)
    assert lazy < opt < eager
