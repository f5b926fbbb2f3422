"""Where are the ranks of a Slurm job, and what do its tasks write on the board?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from executor.launchers.gangs.gang import Ended, Heard
from executor.launchers.logs import tail
from executor.launchers.on_slurm.board import Board
from executor.launchers.on_slurm.queue import JobState, SlurmError, job_state
from executor.launchers.outcome import Status

_BEAT_S = 2.0
_STATE_S = 2.0
_SILENT_END_S = 6.0
"""So long after the end of a job its tasks' last words may still be on their way."""

_ENDS = {
    "CANCELLED": (Status.FAILED, "was cancelled (scancel)"),
    "TIMEOUT": (Status.TIMED_OUT, "reached its time limit: allow more with --time-limit"),
    "DEADLINE": (Status.TIMED_OUT, "reached its deadline"),
    "OUT_OF_MEMORY": (Status.OUT_OF_MEMORY, "was ended by Slurm, whose limit on its memory it reached"),
    "NODE_FAIL": (Status.FAILED, "lost a node: try again"),
    "BOOT_FAIL": (Status.FAILED, "got a node that did not start: try again"),
    "PREEMPTED": (Status.FAILED, "had to make room for another job: try again"),
}


class SlurmPlaces:
    """`executor.launchers.gangs.gang.Places`: a task of a job for each rank."""

    def __init__(self, board: Board, job_id: str, ranks: int) -> None:
        self._board, self._job_id = board, job_id
        self._heard, self._counts = [Heard() for _ in range(ranks)], [0] * ranks
        self._beats, self._beat_due = 0, 0.0
        self._state, self._state_due, self._over_at = JobState("RUNNING", "", "", ""), 0.0, float("inf")

    def look(self) -> Sequence[Heard]:
        """Read what all have written, and show that somebody waits."""
        self.beat()
        for rank in range(len(self._heard)):
            self._heard[rank] = self._hear(rank)
        return self._heard

    def begin(self, address: str, port: int) -> None:
        """Start all ranks."""
        self._board.begin(address, port)

    def beat(self) -> None:
        """Show the tasks, every other second, that somebody waits."""
        if time.monotonic() > self._beat_due:
            self._beat_due, self._beats = time.monotonic() + _BEAT_S, self._beats + 1
            self._board.beat(self._beats)

    def ended(self) -> Ended | None:
        """What Slurm says of the job, once it has ended it."""
        now = time.monotonic()
        if now > self._state_due:
            self._state_due = now + _STATE_S
            with suppress(SlurmError):  # it may be restarting: what was known last holds
                self._state = job_state(self._job_id)
        if not self._state.over:
            return None
        self._over_at = min(self._over_at, now)
        word = self._state.state
        if word in _ENDS:
            status, what = _ENDS[word]
            return Ended(status, f"Slurm job {self._job_id} {what}", log=self._log())
        if now - self._over_at < _SILENT_END_S:
            return None
        message = (
            f"Slurm job {self._job_id} has ended ({word or 'and is forgotten'}) and its ranks gave no answer"
        )
        return Ended(Status.FAILED, message, log=self._log())

    def _hear(self, rank: int) -> Heard:
        before, said = self._heard[rank], self._board.hear(rank)
        if not said:
            return before
        is_new = said["count"] != self._counts[rank]
        self._counts[rank] = said["count"]
        return Heard(
            at_ns=time.monotonic_ns() if is_new else before.at_ns,
            here=said.get("here"),
            seen=said.get("seen"),
            result=said.get("result"),
            lost=said["ended"] if "result" not in said else None,
        )

    def _log(self) -> str:
        """The end of what the first task that wrote something wrote."""
        logs = sorted(self._board.folder.glob("*_log.err")) + sorted(self._board.folder.glob("*_log.out"))
        return next(filter(None, map(tail, logs)), "")
