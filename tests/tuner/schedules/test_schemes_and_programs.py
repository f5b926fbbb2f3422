"""What a scheme tells the planner, against the program that would run."""

from collections.abc import Iterator

import numpy as np
import pytest

from tuner.operation_costs import OperationCosts
from tuner.ranks import to_ranks
from tuner.schedules import SCHEMES, SYNCHRONOUS, Case, Scheme
from tuner.schedules.generators import generate
from tuner.schedules.lowering import lower
from tuner.schedules.program import Program
from tuner.simulation import simulate

DEPTHS = (1, 2, 4, 6, 8)
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
UPPER_BOUNDS = {"chimera_split"}
"""Schemes whose live counts are a bound: how many weight gradients wait depends on the costs."""


def variants(scheme: Scheme) -> Iterator[tuple[Case, Program]]:
    """Every legal variant of a scheme, with its program, at B = 2F."""
    for depth in DEPTHS:
        if scheme.illegal_depth(depth):
            continue
        for scaling, pairs in scheme.variants(depth, exhaustive=True):
            for count in COUNTS:
                if scheme.illegal(depth, count, scaling=scaling, pipe_pairs=pairs):
                    continue
                case = Case(
                    depth, np.array([count]), scaling, pairs, np.ones(1), np.full(1, 2.0), scheme.chunks
                )
                program = generate(
                    scheme.name, depth=depth, micro_batches=count, scaling=scaling, pipe_pairs=pairs
                )
                yield case, lower(program)


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_stages_stand_where_the_program_puts_them(name: str) -> None:
    """The planner's placement is the program's."""
    for case, program in variants(SCHEMES[name]):
        assert (SCHEMES[name].placement(case.depth, case.pipe_pairs) == program.placement).all()


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_memory_counts_the_micro_batches_that_are_alive(name: str) -> None:
    """Exactly, or at least where it is a bound: never fewer."""
    scheme = SCHEMES[name]
    how = "sum" if scheme.pipes_overlap else "max"
    for case, program in variants(scheme):
        placement = scheme.placement(case.depth, case.pipe_pairs)
        counted = to_ranks(scheme.live(case), placement, how)[0]
        alive = simulate(program, OperationCosts.uniform(program)).peak_live()
        assert (counted >= alive - 1e-9).all(), case
        if name not in UPPER_BOUNDS:
            assert counted == pytest.approx(alive), case


@pytest.mark.parametrize("name", SYNCHRONOUS)
def test_the_closed_form_is_near_the_simulation(name: str) -> None:
    """Exact at B = 2F, but for Chimera's short last unit and where split schedules have few micro-batches."""
    scheme = SCHEMES[name]
    for case, program in variants(scheme):
        path = scheme.critical_path(case)
        closed = float(path.forwards[0] + 2 * path.backwards[0]) / scheme.chunks
        simulated = simulate(program, OperationCosts.uniform(program)).makespan_s
        assert closed <= simulated * 1.04 + 1e-9, case
        if case.micro_batches[0] >= 2 * case.depth:
            assert closed == pytest.approx(simulated, rel=0.05), case
