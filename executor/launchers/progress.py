"""What is every rank doing right now? One shared memory file in which each rank has a record of its own.

A rank writes its operation before it runs it, which costs well under a microsecond, and what went wrong when
something did. Whoever watches reads the records of all ranks, also of those that are frozen or dead. The file
is anonymous (memfd): it needs no disk, and is gone with the last process that has it open.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from time import monotonic_ns
from typing import Any

RECORD_BYTES = 32 * 1024
LONGEST_REPORT = 24 * 1024
LONGEST_ACTIVITY = 200
_SHORTENED = 2000

_IDENTITY = struct.Struct("<qq")  # process id, nanoseconds at which it began
_STATE = struct.Struct("<q")
_NOTE = struct.Struct("<14q")  # nanoseconds, number in the program, the ten fields of an operation, phase
_PHASE = struct.Struct("<qq")  # whether it waits for its input, and since when it does or does not
_END = struct.Struct("<qq")  # nanoseconds, wait status
_LENGTH = struct.Struct("<q")
_IDENTITY_AT, _STATE_AT, _END_AT, _NOTE_AT, _ACTIVITY_AT, _REPORT_AT = 0, 32, 64, 128, 256, 1024
_PHASE_AT = _NOTE_AT + _NOTE.size - _PHASE.size


class RankState(IntEnum):
    """How far a rank has come."""

    ABSENT = 0
    """Its process has not begun."""
    RUNNING = 1
    DONE = 2
    FAILED = 3
    """It left a report."""


@dataclass(frozen=True)
class Note:
    """An operation that a rank was about to run."""

    at_ns: int
    """Of the monotonic clock, which all processes of a machine share."""
    index: int
    """Number in the rank's program."""
    fields: tuple[int, ...]
    """Those of tuner.schedules.program.Op, as integers."""


@dataclass(frozen=True)
class RankRecord:
    """What a rank has written."""

    rank: int
    state: RankState
    pid: int
    started_ns: int
    active_ns: int
    """When it last wrote something; 0 if it never did."""
    activity: str
    """What it is doing between operations, in words."""
    note: Note | None
    waiting: bool
    """Whether it waits for others, as far as it told."""
    report: dict[str, Any] | None
    """What went wrong, see executor.launchers.failure."""
    ended_ns: int = 0
    """When its process ended; 0 if that is not known."""
    wait_status: int | None = None
    """How it ended, as waitpid gives it."""


class ProgressArea:
    """The records of all ranks."""

    def __init__(self, descriptor: int, ranks: int) -> None:
        self._descriptor = descriptor
        self._memory = mmap.mmap(descriptor, ranks * RECORD_BYTES)
        self.ranks = ranks

    @classmethod
    def create(cls, ranks: int) -> ProgressArea:
        """An empty area that lives as long as a process has it open."""
        descriptor = os.memfd_create("chimera-progress")
        os.ftruncate(descriptor, ranks * RECORD_BYTES)
        return cls(descriptor, ranks)

    @classmethod
    def attach(cls, path: str | Path) -> ProgressArea:
        """The area at the `path` of the process that created it."""
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return cls(descriptor, os.fstat(descriptor).st_size // RECORD_BYTES)

    @property
    def path(self) -> str:
        """Where other processes of the same user find it, while this one lives."""
        return f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def writer(self, rank: int) -> Progress:
        """The record of one rank, to be written by that rank alone."""
        return Progress(self._memory, rank * RECORD_BYTES)

    def read(self, rank: int) -> RankRecord:
        """What a rank has written so far."""
        start = rank * RECORD_BYTES
        pid, started_ns = _IDENTITY.unpack_from(self._memory, start + _IDENTITY_AT)
        (state,) = _STATE.unpack_from(self._memory, start + _STATE_AT)
        at_ns, index, *fields, waiting, phase_ns = self._steady_note(start + _NOTE_AT)
        activity_ns, activity = self._activity(start + _ACTIVITY_AT)
        ended_ns, status = _END.unpack_from(self._memory, start + _END_AT)
        report = self._report(start + _REPORT_AT) if state == RankState.FAILED else None
        return RankRecord(
            rank=rank,
            state=RankState(state),
            pid=pid,
            started_ns=started_ns,
            active_ns=max(started_ns, at_ns, phase_ns, activity_ns),
            activity=activity,
            note=Note(at_ns, index, tuple(fields)) if at_ns else None,
            waiting=bool(waiting),
            report=report,
            ended_ns=ended_ns,
            wait_status=status if ended_ns else None,
        )

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()
        os.close(self._descriptor)

    def _steady_note(self, at: int) -> tuple[int, ...]:
        """Read until two readings agree: the rank may be writing."""
        before: tuple[int, ...] = ()
        for _ in range(8):
            now = _NOTE.unpack_from(self._memory, at)
            if now == before:
                break
            before = now
        return before

    def _activity(self, at: int) -> tuple[int, str]:
        (written_ns,) = _LENGTH.unpack_from(self._memory, at)
        (length,) = _LENGTH.unpack_from(self._memory, at + 8)
        return written_ns, self._memory[at + 16 : at + 16 + length].decode("utf-8", "replace")

    def _report(self, at: int) -> dict[str, Any]:
        (length,) = _LENGTH.unpack_from(self._memory, at)
        report: dict[str, Any] = json.loads(self._memory[at + 8 : at + 8 + length])
        return report


class Progress:
    """What one rank writes about itself."""

    def __init__(self, memory: mmap.mmap, start: int) -> None:
        self._memory, self._start = memory, start
        self._write_note = partial(_NOTE.pack_into, memory, start + _NOTE_AT)
        self._write_phase = partial(_PHASE.pack_into, memory, start + _PHASE_AT)

    def begin(self) -> None:
        """Say that the process is there."""
        _IDENTITY.pack_into(self._memory, self._start + _IDENTITY_AT, os.getpid(), monotonic_ns())
        self._enter(RankState.RUNNING)

    def note(self, index: int, op: Sequence[int], *, waits: bool = False) -> None:
        """Say which operation comes next, by its number in the program, and whether it waits for input."""
        now_ns = monotonic_ns()
        self._write_note(now_ns, index, *op, waits, now_ns)

    def wait(self) -> None:
        """Say that others must do something before this rank can go on."""
        self._write_phase(1, monotonic_ns())

    def go_on(self) -> None:
        """Say that it does not wait any more."""
        self._write_phase(0, monotonic_ns())

    def doing(self, activity: str) -> None:
        """Say in words what goes on outside the program, as "building the model"."""
        encoded, at = activity.encode()[:LONGEST_ACTIVITY], self._start + _ACTIVITY_AT
        self._memory[at + 16 : at + 16 + len(encoded)] = encoded
        _LENGTH.pack_into(self._memory, at + 8, len(encoded))
        _LENGTH.pack_into(self._memory, at, monotonic_ns())

    def fail(self, report: dict[str, Any]) -> None:
        """Leave a report, once: the first counts."""
        if _STATE.unpack_from(self._memory, self._start + _STATE_AT) == (RankState.FAILED,):
            return
        encoded = json.dumps(report).encode()
        if len(encoded) > LONGEST_REPORT:
            encoded = json.dumps({key: _shortened(value) for key, value in report.items()}).encode()
        at = self._start + _REPORT_AT
        self._memory[at + 8 : at + 8 + len(encoded)] = encoded
        _LENGTH.pack_into(self._memory, at, len(encoded))
        self._enter(RankState.FAILED)

    def finish(self) -> None:
        """Say that the work is done."""
        self._enter(RankState.DONE)

    def end(self, wait_status: int) -> None:
        """Say how the process ended: written by its parent."""
        _END.pack_into(self._memory, self._start + _END_AT, monotonic_ns(), wait_status)

    def _enter(self, state: RankState) -> None:
        _STATE.pack_into(self._memory, self._start + _STATE_AT, state)


def _shortened(value: Any) -> Any:
    return value[:_SHORTENED] if isinstance(value, str) else value
