"""What does every operation of a program cost? Seconds by stage, links by pair of ranks, bytes by cut.

What is given by stage or cut is [s], or [p, s] where the pipes of a program differ.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuner.schedules.compiled import NONE, Compiled
from tuner.schedules.program import Integers, Kind, Program

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OperationCosts:
    """Seconds of every operation by stage, links by pair of ranks, message bytes by cut."""

    forward_s: Floats
    backward_s: Floats
    """The whole backward; I takes what W does not, and `split_s`."""
    weight_gradient_s: Floats
    recompute_s: Floats
    update_s: Floats
    sync_s: Floats
    """Collective of each parameter group: the stages, then the tied groups."""
    latency_s: Floats
    """[source, target]"""
    seconds_per_byte: Floats
    """[source, target]"""
    message_bytes: Floats
    """Of the cut after each stage; gradients are as large."""
    split_s: Floats | float = 0.0
    """What I and W take together beyond B."""
    fused_factor: float = 1.0
    """Time of a fused pair over the sum of its two."""
    lanes: int | None = None
    """Collectives of one rank that run at once; None for any number."""
    slow_down: float = 0.0
    """While a collective runs on a rank, its computation takes 1 + slow_down times as long."""
    sync_beside_s: Floats | None = None
    """As `sync_s`, while a rank of the collective computes; None for the same."""
    compress_s: Floats | float = 0.0
    """Of each parameter group, on its rank before its collective."""
    decompress_s: Floats | float = 0.0
    """Of each stage, on its rank before its UPDATE."""

    @property
    def input_gradient_s(self) -> Floats:
        """What I takes: a part of almost no time is not to become negative by rounding."""
        return np.maximum(0.0, self.backward_s - self.weight_gradient_s + self.split_s)

    @property
    def interferes(self) -> bool:
        """Whether collectives and computation slow each other down."""
        return self.slow_down > 0 or self.sync_beside_s is not None

    @property
    def without_interference(self) -> "OperationCosts":
        """The same where collectives and computation do not slow each other down."""
        return replace(self, slow_down=0.0, sync_beside_s=None)

    @classmethod
    def uniform(
        cls,
        program: Program,
        *,
        forward_s: float = 1.0,
        backward_s: float = 2.0,
        weight_gradient_s: float | None = None,
        hop_latency_s: float = 0.0,
        update_s: float = 0.0,
        sync_s: float = 0.0,
    ) -> "OperationCosts":
        """Equal stages: the times of one stage, its chunks sharing them."""
        stages, depth = program.stages, program.depth
        share = stages // depth
        ones = np.ones(stages)
        weight = backward_s / 2 if weight_gradient_s is None else weight_gradient_s
        return cls(
            forward_s=ones * forward_s / share,
            backward_s=ones * backward_s / share,
            weight_gradient_s=ones * weight / share,
            recompute_s=ones * forward_s / share,
            update_s=ones * update_s,
            sync_s=np.full(count_groups(program), sync_s),
            latency_s=np.full((depth, depth), hop_latency_s),
            seconds_per_byte=np.zeros((depth, depth)),
            message_bytes=np.zeros(stages),
        )


def by_pipe(values: Floats | float, program: Program) -> Floats:
    """Values of every stage, which may be the same for all pipes [p, s]."""
    return np.broadcast_to(np.asarray(values, dtype=np.float64), program.placement.shape)


def count_groups(program: Program) -> int:
    """Parameter groups: one of each stage, and the tied ones that have collectives."""
    return max(program.stages, int(program.columns.group.max(initial=NONE)) + 1)


def durations(compiled: Compiled, costs: OperationCosts, events: Integers | slice = slice(None)) -> Floats:
    """Seconds of the events, of all by default; a SYNC takes no time of its rank."""
    program, columns = compiled.program, compiled.program.columns
    by_kind = {
        Kind.F: costs.forward_s,
        Kind.B: costs.backward_s,
        Kind.I: costs.input_gradient_s,
        Kind.W: costs.weight_gradient_s,
        Kind.RECOMPUTE: costs.recompute_s,
        Kind.UPDATE: costs.update_s + np.asarray(costs.decompress_s),
    }
    table = np.stack([by_pipe(by_kind.get(kind, 0.0), program) for kind in Kind])

    def of(rows: Integers) -> Floats:
        at = columns.kind[rows], columns.pipe[rows], columns.stage[rows]
        return np.asarray(table[at] / columns.parts[rows])

    second = compiled.second[events]
    alone, fused = of(compiled.first[events]), np.flatnonzero(second != NONE)
    alone[fused] = (alone[fused] + of(second[fused])) * costs.fused_factor
    if np.any(costs.compress_s):
        _add_compression(alone, compiled.first[events], costs=costs, program=program)
    return alone


def _add_compression(seconds: Floats, rows: Integers, *, costs: OperationCosts, program: Program) -> None:
    """Compressing keeps a rank until its collective starts."""
    columns = program.columns
    at = np.flatnonzero(columns.kind[rows] == Kind.SYNC)
    by_group = np.broadcast_to(np.asarray(costs.compress_s), count_groups(program))
    seconds[at] = by_group[columns.group[rows[at]]] / columns.parts[rows[at]]


def transfer_times(
    compiled: Compiled, costs: OperationCosts, messages: Integers | slice = slice(None)
) -> tuple[Floats, Floats]:
    """For the messages, all by default: the time from leaving to arriving, and how long the link is taken."""
    transfers = compiled.transfers
    pair = transfers.source[messages], transfers.target[messages]
    pipe = compiled.program.columns.pipe[transfers.row[messages]]
    size = by_pipe(costs.message_bytes, compiled.program)[pipe, transfers.cut[messages]]
    occupied = size * costs.seconds_per_byte[pair]
    occupied = np.where(transfers.forward[messages], occupied, occupied / transfers.parts[messages])
    return costs.latency_s[pair] + occupied, occupied
