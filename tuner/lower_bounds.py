"""How fast could a program be at best? Whatever the order, no makespan is below these two."""

from dataclasses import dataclass

import numpy as np

from tuner.operation_costs import Floats, OperationCosts
from tuner.schedules.program import Integers, Kind, Program
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
    chains = [_chain(program, costs, ranks) for ranks in program.placement]
    return LowerBounds(float(timeline.busy_s().max(initial=0.0)), max(chains))


def _chain(program: Program, costs: OperationCosts, ranks: Integers) -> float:
    """Σ (F + B) over the stages of a pipe, and its messages; where B is split, Σ I and the last W."""
    kinds = program.columns.kind
    backwards = np.isin(kinds, (Kind.B, Kind.I))
    parts = int(program.columns.parts[backwards].max(initial=1))
    there = costs.latency_s[ranks[:-1], ranks[1:]] + _transfer_s(costs, ranks[:-1], ranks[1:])
    back = costs.latency_s[ranks[1:], ranks[:-1]] + _transfer_s(costs, ranks[1:], ranks[:-1]) / parts
    apart = ranks[1:] != ranks[:-1]
    messages = float((there + back)[apart].sum())
    forward = float(costs.forward_s.sum())
    if (kinds == Kind.W).any():
        inputs = costs.backward_s - costs.weight_gradient_s
        return forward + messages + float(inputs.sum() + costs.weight_gradient_s[0])
    return forward + messages + float(costs.backward_s.sum()) / parts


def _transfer_s(costs: OperationCosts, source: Integers, target: Integers) -> Floats:
    return np.asarray(costs.message_bytes[:-1] * costs.seconds_per_byte[source, target])
