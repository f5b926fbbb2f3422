"""What does each task of a Slurm job do? It holds the place of one rank, and speaks for it on the board."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

from executor.launchers.gangs.place_process import PlaceProcess
from executor.launchers.on_slurm.board import Board
from executor.launchers.progress import RankState

_TICK_S = 0.1
_PULSE_S = 60.0
"""So long a task goes on when nobody shows that somebody waits."""
_LAST_WORDS_S = 4.0
"""A failed rank is told of for so long before its task ends."""


def hold_place(folder: str) -> str:
    """Run the rank of this task; says how it ended, which nobody needs to read."""
    return Task(Board(Path(folder))).run()


class Task:
    """One rank; which, Slurm tells in the environment."""

    def __init__(self, board: Board) -> None:
        self._board, self._rank = board, int(os.environ["SLURM_PROCID"])
        self._asked_to_end = False
        self._beat, self._beat_at = 0, time.monotonic()
        signal.signal(signal.SIGTERM, self._end)

    def run(self) -> str:
        """Until the rank is done or failed, Slurm ends the job, or nobody waits for it any more."""
        # Slurm runs its first task on the node from which it starts them all.
        address = os.environ.get("SLURM_LAUNCH_NODE_IPADDR") if self._rank == 0 else None
        self._place = PlaceProcess(self._board.launch(), self._rank, address=address)
        try:
            return self._attend()
        finally:
            self._place.end()

    def _attend(self) -> str:
        begun, told, over_at = False, 0, float("inf")
        while not self._asked_to_end:
            if not begun and (where := self._board.begun()):
                self._place.begin(where["address"], where["port"])
                begun = True
            said, count = dict(self._place.said), self._place.count
            if "result" in said:
                self._say(said)
                self._board.answer(self._rank, said["result"])
                return "done"
            if count != told:
                self._say(said)
                told = count
            if self._failed(said) or self._place.ended:
                over_at = min(over_at, time.monotonic() + _LAST_WORDS_S)
            if time.monotonic() > over_at:
                return "failed"
            if not self._somebody_waits():
                if self._rank == 0:
                    shutil.rmtree(self._board.folder, ignore_errors=True)
                return "abandoned"
            time.sleep(_TICK_S)
        return "ended"

    def _say(self, said: dict[str, object]) -> None:
        with suppress(OSError):
            self._board.say(
                self._rank,
                said | {"ended": self._place.ended, "host": socket.gethostname(), "count": self._place.count},
            )

    @staticmethod
    def _failed(said: dict[str, dict[str, object]]) -> bool:
        seen = said.get("seen")
        return seen is not None and (
            seen["state"] == RankState.FAILED
            or (seen["gone"] is not None and seen["state"] != RankState.DONE)
        )

    def _somebody_waits(self) -> bool:
        beat, now = self._board.pulse(), time.monotonic()
        if beat != self._beat:
            self._beat, self._beat_at = beat, now
        return beat >= 0 and now - self._beat_at < _PULSE_S

    def _end(self, *_: object) -> None:
        self._asked_to_end = True
