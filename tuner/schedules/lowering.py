"""Which messages and collectives does a program need, and where do they stand?

SEND stands right behind what it sends. RECV only posts a buffer; it stands `prefetch` steps before its use,
so that a message sent early is not kept waiting (a head-of-line stall). `tuner.schedules.updates` says
where SYNC and UPDATE stand.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from tuner.schedules.program import Columns, Integers, Kind, Op, Program
from tuner.schedules.updates import Synchronization, updates_due

Transport = Literal["rendezvous", "ordered"]

_BEFORE, _ITSELF, _SENT, _DUE = range(4)
"""Where a row stands against its step."""


@dataclass(frozen=True)
class Lowering:
    """How to lower a program."""

    synchronization: Synchronization = field(default_factory=Synchronization)
    prefetch: int = 2
    """Steps by which a RECV is posted ahead of its use; 0 posts it just before."""


def lower(program: Program, how: Lowering | None = None) -> Program:
    """The program with messages, collectives and updates: what is simulated, run and exported."""
    how = how or Lowering()
    columns = program.columns
    table = np.stack(columns)
    receives, sends = _messages(program)
    due = [(row, op) for row, ops in updates_due(program, how.synchronization) for op in ops]
    behind = np.array([row for row, _ in due], dtype=np.int64)
    rows = [
        (table, columns.step, _ITSELF),
        (_as_messages(table[:, receives], Kind.RECV_F), _posted_at(columns, receives, how.prefetch), _BEFORE),
        (_as_messages(table[:, sends], Kind.SEND_F), columns.step[sends], _SENT),
        (_as_rows([op for _, op in due], columns.rank[behind]), columns.step[behind], _DUE),
    ]
    merged = np.concatenate([part for part, _, _ in rows], axis=1)
    key = np.concatenate([at * 4 + place for _, at, place in rows])
    order = np.argsort(key, kind="stable")
    return program.lowered_to(_numbered(np.take(merged, order, axis=1), key[order]))


def _messages(program: Program) -> tuple[Integers, Integers]:
    """Rows of the operations whose input comes from another rank, and of those whose output goes to one."""
    columns, placement = program.columns, program.placement
    differs = placement[:, 1:] != placement[:, :-1]
    none = np.zeros((program.pipes, 1), dtype=bool)
    behind, ahead = np.hstack([none, differs]), np.hstack([differs, none])
    at = columns.pipe, columns.stage
    forward, backward = columns.kind == Kind.F, (columns.kind == Kind.B) | (columns.kind == Kind.I)
    receives = (forward & behind[at]) | (backward & ahead[at])
    sends = (forward & ahead[at]) | (backward & behind[at])
    return np.flatnonzero(receives), np.flatnonzero(sends)


def _as_messages(rows: Integers, forward_kind: Kind) -> Integers:
    """Operations as the SEND or RECV of their value; a message has no weight version."""
    kind, pipe, stage, micro_batch, part, parts, version, *others = rows
    gradient_kind = forward_kind + 2
    message = np.where(kind == Kind.F, forward_kind, gradient_kind)
    return np.stack([message, pipe, stage, micro_batch, part, parts, np.zeros_like(version), *others])


def _posted_at(columns: Columns, receives: Integers, prefetch: int) -> Integers:
    """The step before which each RECV is posted."""
    first_row = np.searchsorted(columns.rank, columns.rank[receives])
    return np.maximum(columns.step[receives] - prefetch, columns.step[first_row])


def _as_rows(ops: list[Op], rank: Integers) -> Integers:
    """Operations as rows of their ranks; their steps are numbered afterwards."""
    fields = np.array(ops, dtype=np.int64).reshape(len(ops), len(Op._fields)).T
    return np.vstack([fields, rank[None], np.zeros((1, len(ops)), dtype=np.int64)])


def _numbered(table: Integers, key: Integers) -> Columns:
    """Columns with steps counted anew: what stood in one step stays in one, everything else is its own."""
    *fields, step = table
    same = (key[1:] == key[:-1]) & (key[1:] % 4 == _ITSELF) & (step[1:] == step[:-1])
    step = np.concatenate([[0], np.cumsum(~same)]) if len(step) else step
    return Columns._make([*fields, step])
