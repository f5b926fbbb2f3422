"""What must be known before each step of a lowered program can start? A program as arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuner.errors import DeadlockError, UnmatchedMessageError
from tuner.schedules.messages import Message
from tuner.schedules.program import Columns, Integers, Kind, Op, Program

NONE = -1


@dataclass(frozen=True)
class Transfers:
    """The messages of a program; every array has one entry for each."""

    row: Integers
    """Row of the SEND in the program's columns."""
    source: Integers
    """Sending rank."""
    target: Integers
    """Receiving rank."""
    forward: NDArray[np.bool_]
    """An activation, or else a gradient."""
    cut: Integers
    """The stage before the cut that is crossed."""
    parts: Integers
    sent_by: Integers
    """Event after which it is sent; NONE at the start of the program."""
    posted_by: Integers
    """Event after which its receive is posted; NONE at the start."""


@dataclass(frozen=True)
class Compiled:
    """Events are the steps that are not SEND or RECV, rank after rank, in order."""

    program: Program
    first: Integers
    """The row of each event's first operation in `program.columns`."""
    second: Integers
    """The row of a fused pair's other operation; NONE elsewhere."""
    rank: Integers
    begins: list[int]
    """First event of each rank, and the number of events."""
    inputs: tuple[Integers, Integers]
    """Transfers that the first and the second operation of each event wait for; NONE where there is none."""
    transfers: Transfers

    def message(self, transfer: int) -> Message:
        """What a transfer carries."""
        columns, row = self.program.columns, int(self.transfers.row[transfer])
        return Message(
            bool(self.transfers.forward[transfer]),
            int(columns.pipe[row]),
            int(self.transfers.cut[transfer]),
            int(columns.micro_batch[row]),
            int(columns.part[row]),
            int(columns.iteration[row]),
        )

    def describe(self, events: list[int]) -> str:
        """Where ranks are blocked, for people."""
        blocked = [
            f"rank {self.rank[event]} at {_operation(self.program, int(self.first[event]))}"
            for event in events
        ]
        return "the program cannot go on: " + "; ".join(blocked)


def compile_program(program: Program) -> Compiled:
    """The arrays of a lowered program.

    Raises UnmatchedMessageError naming an operation without its peer, and DeadlockError naming one whose RECV
    stands behind it.
    """
    columns = program.columns
    message = (columns.kind >= Kind.SEND_F) & (columns.kind <= Kind.RECV_B)
    event_of_row = _events(columns, message)
    rows = np.flatnonzero(~message)
    events = event_of_row[rows]
    count = int(events[-1]) + 1 if len(events) else 0
    first = np.full(count, NONE, dtype=np.int64)
    first[events[::-1]] = rows[::-1]
    second = np.where(np.bincount(events, minlength=count) > 1, first + 1, NONE)
    rank = columns.rank[first]
    sends, receives, keys = _pairs(program)
    transfers = _transfers(columns, sends, receives, event_of_row=event_of_row)
    one, other = _waits(program, first, keys), _waits(program, second, keys)
    inputs = np.where(one == NONE, other, one), np.where(one == NONE, NONE, other)
    begins = np.searchsorted(rank, np.arange(program.depth + 1)).tolist()
    compiled = Compiled(program, first, second, rank, begins, inputs, transfers)
    _refuse_late_receives(compiled)
    return compiled


def _refuse_late_receives(compiled: Compiled) -> None:
    """A step that waits for a message whose RECV stands behind it waits for ever."""
    posted_by = np.append(compiled.transfers.posted_by, NONE)
    for inputs in compiled.inputs:
        late = np.flatnonzero(posted_by[inputs] >= np.arange(len(inputs)))
        if len(late):
            raise DeadlockError(compiled.describe([int(late[0])]))


def _events(columns: Columns, message: NDArray[np.bool_]) -> Integers:
    """For each row its event; for a SEND or RECV the last event before it on its rank, or NONE."""
    starts = np.concatenate([[True], columns.step[1:] != columns.step[:-1]]) & ~message
    event = np.cumsum(starts) - 1
    first_of_rank = np.searchsorted(columns.rank, np.arange(columns.rank.max(initial=0) + 1))[columns.rank]
    before_rank = np.where(first_of_rank > 0, event[first_of_rank - 1], NONE)
    return np.where(message & (event == before_rank), NONE, event)


def _keys(program: Program, rows: Integers, *, forward: NDArray[np.bool_], cut: Integers) -> Integers:
    """One number for each message: direction, pipe, cut, iteration, micro-batch and part."""
    columns = program.columns
    parts = int(columns.parts.max(initial=1))
    key = forward.astype(np.int64)
    for value, size in (
        (columns.pipe[rows], program.pipes),
        (cut, program.stages),
        (columns.iteration[rows], program.iterations),
        (columns.micro_batch[rows], program.micro_batches),
        (columns.part[rows], parts),
    ):
        if size > 1:
            key = key * size + value
    return key


def _message_keys(program: Program, rows: Integers) -> Integers:
    columns = program.columns
    kind = columns.kind[rows]
    forward = (kind == Kind.SEND_F) | (kind == Kind.RECV_F)
    behind = (kind == Kind.RECV_F) | (kind == Kind.SEND_B)
    return _keys(program, rows, forward=forward, cut=columns.stage[rows] - behind)


def _pairs(program: Program) -> tuple[Integers, Integers, Integers]:
    """Rows of the SENDs and of their RECVs, and the message keys by which they are sorted."""
    columns = program.columns
    sends = np.flatnonzero((columns.kind == Kind.SEND_F) | (columns.kind == Kind.SEND_B))
    receives = np.flatnonzero((columns.kind == Kind.RECV_F) | (columns.kind == Kind.RECV_B))
    sends, send_keys = _sorted(sends, _message_keys(program, sends))
    receives, receive_keys = _sorted(receives, _message_keys(program, receives))
    if len(sends) != len(receives) or (send_keys != receive_keys).any():
        odd = np.setxor1d(send_keys, receive_keys)
        rows = np.concatenate([sends[np.isin(send_keys, odd)], receives[np.isin(receive_keys, odd)]])
        shown = (
            "a message is sent or received twice"
            if not len(rows)
            else f"{_operation(program, int(rows[0]))} has no peer"
        )
        raise UnmatchedMessageError(
            f"{shown}: every SEND needs one RECV ({len(sends)} and {len(receives)} found)"
        )
    return sends, receives, send_keys


def _sorted(rows: Integers, keys: Integers) -> tuple[Integers, Integers]:
    order = np.argsort(keys)
    return rows[order], keys[order]


def _operation(program: Program, row: int) -> Op:
    rank = int(program.columns.rank[row])
    ops = [op for step in program.ranks[rank] for op in step]
    return ops[row - int(np.searchsorted(program.columns.rank, rank))]


def _transfers(columns: Columns, sends: Integers, receives: Integers, *, event_of_row: Integers) -> Transfers:
    forward = columns.kind[sends] == Kind.SEND_F
    return Transfers(
        row=sends,
        source=columns.rank[sends],
        target=columns.rank[receives],
        forward=forward,
        cut=columns.stage[sends] - ~forward,
        parts=columns.parts[sends],
        sent_by=event_of_row[sends],
        posted_by=event_of_row[receives],
    )


def _waits(program: Program, rows: Integers, known: Integers) -> Integers:
    """The transfer that each operation waits for; `known` are the sorted message keys."""
    columns = program.columns
    waits = np.full(len(rows), NONE, dtype=np.int64)
    at = np.flatnonzero(rows != NONE)
    at = at[np.isin(columns.kind[rows[at]], (Kind.F, Kind.B, Kind.I))]
    stage, forward = columns.stage[rows[at]], columns.kind[rows[at]] == Kind.F
    cut = stage - forward
    differs = np.pad(program.placement[:, 1:] != program.placement[:, :-1], ((0, 0), (0, 1)))
    crosses = differs[columns.pipe[rows[at]], cut]
    at, forward, cut = at[crosses], forward[crosses], cut[crosses]
    keys = _keys(program, rows[at], forward=forward, cut=cut)
    found = np.searchsorted(known, keys)
    missing = np.append(known, NONE)[found] != keys
    if missing.any():
        lost = _operation(program, int(rows[at][missing.argmax()]))
        raise UnmatchedMessageError(f"nothing sends the input of {lost}")
    waits[at] = found
    return waits
