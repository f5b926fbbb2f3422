"""Whose turn is it on a rank? A file that the processes of all jobs share, and locks on its bytes.

Turns go round in the order of the jobs, the same on every rank, so that no two jobs wait for each other
across ranks. Whoever waits sleeps in the kernel, on a lock that the turn's holder has: the end of the turn
lets it go, and so does the end of the process, however that comes, which is how a dead job is skipped.

A job has locked the byte of the turn that it is in, or waits for. It takes the next turn's before it lets
go, so that one which can be locked although its turn has not ended is a dead job's.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from executor.errors import ConfigurationError, TrialError
from executor.launchers.launch import MemoryFile

_NUMBER = struct.Struct("=q")
_LOCKS = 4
"""Bytes that the turns of a job go through: it is never two turns ahead of one that waits for it."""
_ABSENT, _ENDED = -1, 2**62
_LOOK_S = 0.005
"""How often a process looks whether the others have come; before its first turn alone."""


class TurnBoard:
    """Turns of every rank and job, in a file that lives as long as this process has it open."""

    def __init__(self, *, ranks: int, jobs: int) -> None:
        self.ranks, self.jobs = ranks, jobs
        self._file = MemoryFile("chimera-turns", _NUMBER.pack(_ABSENT) * ((ranks + 1) * jobs))
        self.path = self._file.path

    def end(self, job: int) -> None:
        """A job has ended, or is to: others wait for it no more, and what of it still runs fails."""
        with Path(self.path).open("r+b", buffering=0) as file:
            os.pwrite(file.fileno(), _NUMBER.pack(_ENDED), job * _NUMBER.size)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


class Turnstile:
    """The turns of one job on one rank, as a context manager: leaving it ends them."""

    def __init__(self, path: str, *, rank: int, job: int, jobs: int) -> None:
        """Opens the board at `path`, once in a process: locks go with the first of two that is closed."""
        self._rank, self._job, self._jobs = rank, job, jobs
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._turns = mmap.mmap(self._descriptor, 0)
        ranks = len(self._turns) // (_NUMBER.size * jobs) - 1
        if not (0 <= job < jobs and 0 <= rank < ranks):
            raise ConfigurationError(
                f"the board has turns for {jobs} jobs on {ranks} ranks, none for rank {rank} of job {job}"
            )
        self._turn = 0

    def __enter__(self) -> Self:
        self._lock(self._job, 0, fcntl.LOCK_EX)
        self._write(self._job, 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(self._job, _ENDED)
        self._turns.close()
        os.close(self._descriptor)

    def enter(self) -> None:
        """Wait until all jobs are there on this rank, or have ended, and then for the first turn."""
        while any(self._read(job) == _ABSENT for job in range(self._jobs)):
            time.sleep(_LOOK_S)
        self._await()

    def pass_on(self) -> None:
        """End this turn, and wait for the next. Raises TrialError where the job is to end."""
        self._refuse_ended()
        ended, self._turn = self._turn, self._turn + 1
        self._lock(self._job, self._turn, fcntl.LOCK_EX)
        self._write(self._job, self._turn)
        self._unlock(self._job, ended)
        self._await()

    def _await(self) -> None:
        for job in range(self._jobs):
            if job != self._job:
                self._await_turns(job, self._turn + (job < self._job))
        self._refuse_ended()

    def _await_turns(self, job: int, count: int) -> None:
        """Return when so many turns of another job have ended, or it has."""
        while (turn := self._read(job)) < count:
            self._lock(job, turn, fcntl.LOCK_SH)
            self._unlock(job, turn)
            if self._read(job) == turn:
                self._write(job, _ENDED)

    def _refuse_ended(self) -> None:
        if self._read(self._job) == _ENDED:
            raise TrialError(f"the turns of job {self._job} were ended from outside: its run is not wanted")

    def _lock(self, job: int, turn: int, how: int) -> None:
        fcntl.lockf(self._descriptor, how, 1, self._byte(job, turn))

    def _unlock(self, job: int, turn: int) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, self._byte(job, turn))

    def _byte(self, job: int, turn: int) -> int:
        return (self._rank * self._jobs + job) * _LOCKS + turn % _LOCKS

    def _read(self, job: int) -> int:
        """Its turns that have ended; more than there are where it has ended itself."""
        from_outside: int = _NUMBER.unpack_from(self._turns, job * _NUMBER.size)[0]
        turns: int = _NUMBER.unpack_from(self._turns, self._place(job))[0]
        return max(from_outside, turns)

    def _write(self, job: int, turn: int) -> None:
        _NUMBER.pack_into(self._turns, self._place(job), turn)

    def _place(self, job: int) -> int:
        """Behind what is said of the jobs from outside."""
        return ((self._rank + 1) * self._jobs + job) * _NUMBER.size
