"""Could any order of the same work on the same placement be faster? An exact solver knows for small D and N.

F = 1, B = 2 (I = W = 1), free messages, no limit on memory.
"""

from itertools import pairwise
from typing import Any

import pytest

from tests.tuner.schedules.oracle import makespan, unit_times
from tuner.schedules.generators import generate
from tuner.schedules.program import Kind, Op, Program

cp_model: Any = pytest.importorskip(
    "ortools.sat.python.cp_model", reason="ortools is not installed: pip install -c constraints.txt '.[dev]'"
)

LIMIT_S = 20.0
LENGTH = {Kind.F: 1, Kind.B: 2, Kind.I: 1, Kind.W: 1}


def least_makespan(program: Program, horizon: int) -> int:
    """The least makespan of all orders of the program's operations: each on its rank, one at a time."""
    model = cp_model.CpModel()
    starts: dict[Op, Any] = {}
    for steps in program.ranks:
        intervals = []
        for (op,) in steps:
            starts[op] = model.new_int_var(0, horizon - LENGTH[op.kind], str(op))
            intervals.append(model.new_fixed_size_interval_var(starts[op], LENGTH[op.kind], str(op)))
        model.add_no_overlap(intervals)
    end = model.new_int_var(0, horizon, "end")
    for op, start in starts.items():
        model.add(end >= start + LENGTH[op.kind])
    for m in range(program.micro_batches):
        for before, after in chains(program, m):
            model.add(starts[after] >= starts[before] + LENGTH[before.kind])
    for one, other in alike(program):
        model.add(starts[one] <= starts[other])
    for op, start in starts.items():
        model.add_hint(start, 0 if op.kind == Kind.F else horizon // 2)
    model.minimize(end)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = LIMIT_S
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    status = solver.solve(model)
    if status != cp_model.OPTIMAL:
        pytest.skip(
            f"the solver knows only that it is at least {solver.best_objective_bound} after {LIMIT_S} s"
        )
    return int(solver.objective_value)


def chains(program: Program, m: int) -> list[tuple[Op, Op]]:
    """What must come after what: a micro-batch down its pipe and back, and its weight gradients."""
    ops = [op for steps in program.ranks for (op,) in steps if op.micro_batch == m]
    forwards = sorted((op for op in ops if op.kind == Kind.F), key=lambda op: op.stage)
    backwards = sorted((op for op in ops if op.kind in {Kind.B, Kind.I}), key=lambda op: -op.stage)
    own = [(i, w) for w in ops if w.kind == Kind.W for i in backwards if i.stage == w.stage]
    return [*pairwise([*forwards, *backwards]), *own]


def alike(program: Program) -> list[tuple[Op, Op]]:
    """Micro-batches of one pipe are interchangeable, so they may as well enter in their order."""
    first = [op for steps in program.ranks for (op,) in steps if op.kind == Kind.F and op.stage == 0]
    first.sort(key=lambda op: (op.pipe, op.micro_batch))
    return [(one, other) for one, other in pairwise(first) if one.pipe == other.pipe]


OPTIMAL: list[tuple[str, int, int, dict[str, Any]]] = [
    *(("dapple", d, n, {}) for d, n in ((2, 2), (3, 4), (4, 4), (4, 5), (4, 6), (4, 7), (4, 8), (8, 16))),
    *(("gpipe", 4, n, {}) for n in (4, 8)),
    *(("chimera", d, d, {}) for d in (2, 4, 6, 8, 10)),
    *(("chimera", 4, n, {}) for n in (1, 2)),
    ("chimera", 8, 8, {"pipe_pairs": 2}),
    ("chimera", 4, 8, {"scaling": "doubling"}),
    *(("zb_h1", 4, n, {}) for n in (4, 8)),
    *(("chimera_split", d, n, {}) for d, n in ((4, 4), (4, 8), (8, 8))),
]


@pytest.mark.parametrize(("scheme", "depth", "micro_batches", "options"), OPTIMAL)
def test_no_order_is_faster(scheme: str, depth: int, micro_batches: int, options: dict[str, Any]) -> None:
    """On the same placement, with the same split of the micro-batches over the pipes."""
    program = generate(scheme, depth=depth, micro_batches=micro_batches, **options)
    took = int(makespan(program, unit_times()))
    assert least_makespan(program, took) == took


GAPS = [("chimera", 4, n, gap) for n, gap in ((3, 1), (5, 7), (6, 4), (7, 6), (8, 3))]
GAPS += [("chimera", 8, 16, 9), ("gems", 2, 2, 5), ("gems", 4, 4, 23)]


@pytest.mark.parametrize(("scheme", "depth", "micro_batches", "gap"), GAPS)
def test_the_gap_to_the_best_order_is_known(scheme: str, depth: int, micro_batches: int, gap: int) -> None:
    """What direct concatenation and GEMS lose against orders that keep more activations alive."""
    program = generate(scheme, depth=depth, micro_batches=micro_batches)
    took = int(makespan(program, unit_times()))
    assert took - least_makespan(program, took) == gap
