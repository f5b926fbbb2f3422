"""How fast could a program be at best? Whatever the order, no makespan is below these two."""

from dataclasses import dataclass

import numpy as np

from tuner.operation_costs import OperationCosts
from tuner.schedules.program import Kind, Program
from tuner.timeline import Timeline


@dataclass(frozen=True)
class LowerBounds:
    """Two times that no order of the same work can beat."""

    busiest_rank_s: float
    """Work of the rank that has most."""
    longest_chain_s: float
    """One micro-batch through the longest pipe and back: stages, messages, and the last weight gradient."""


def lower_bounds(timeline: Timeline, costs: OperationCosts) -> LowerBounds:
    """The bounds of the program of a timeline under the costs it was simulated with."""
    program = timeline.compiled.program
    chains = [_chain(program, costs, pipe) for pipe in range(program.pipes)]
    return LowerBounds(float(timeline.busy_s().max(initial=0.0)), max(chains))


def _chain(program: Program, costs: OperationCosts, pipe: int) -> float:
    """Σ (F + B) over the stages of a pipe, and its messages; where B is split, Σ I and the last W."""
    kinds, ranks = program.columns.kind, program.placement[pipe]
    parts = int(program.columns.parts[np.isin(kinds, (Kind.B, Kind.I))].max(initial=1))
    forward, backward, apart, weight, cut_bytes = (
        np.broadcast_to(values, program.placement.shape)[pipe]
        for values in (
            costs.forward_s,
            costs.backward_s,
            costs.input_gradient_s,
            costs.weight_gradient_s,
            costs.message_bytes,
        )
    )
    there, back = (ranks[:-1], ranks[1:]), (ranks[1:], ranks[:-1])
    sent = cut_bytes[:-1] * costs.seconds_per_byte[there] + costs.latency_s[there]
    returned = cut_bytes[:-1] * costs.seconds_per_byte[back] / parts + costs.latency_s[back]
    chain = forward.sum() + (sent + returned)[ranks[1:] != ranks[:-1]].sum()
    if (kinds == Kind.W).any():
        return float(chain + apart.sum() + weight[0])
    return float(chain + backward.sum() / parts)
