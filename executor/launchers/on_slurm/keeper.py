"""Who waits for a job of Slurm? A keeper that is started with CALLER LAUNCH SCRATCH WANTED.

It submits the job, waits for its turn, hears its ranks over a folder that all share, and takes the job back
when its answer is there or not wanted any more.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import platformdirs

from executor.launchers.gangs.gang import attend
from executor.launchers.gangs.keeper import Caller, UnplacedError, keep
from executor.launchers.gangs.seen import Document
from executor.launchers.launch import Launch
from executor.launchers.on_slurm.board import Board
from executor.launchers.on_slurm.places import SlurmPlaces
from executor.launchers.on_slurm.queue import JobState, SlurmError, cancel_job, job_state
from executor.launchers.on_slurm.submission import room, submit
from executor.launchers.outcome import Status
from executor.launchers.wanted import Wanted

_LOOK_S = 1.0
_TELL_S = 30.0
_LEAVE_S = 15.0
_CANCEL_S = 8.0
_SILENCE_S = 120.0
_FORGOTTEN_S = 900.0
"""A keeper that has not shown itself for so long was killed; its tasks, if any, have ended by then."""


def run(launch: Launch, wanted: Wanted, caller: Caller) -> Document:
    """Submit, wait, run the gang; neither job nor folder is left."""
    with _board(launch, wanted) as board:
        job_id = submit(launch, wanted, board)
        places = SlurmPlaces(board, job_id, launch.ranks)
        try:
            _wait(job_id, launch, wanted, places=places, caller=caller)
            told = attend(places, launch, wait=caller.wait)
            if "results" in told["agent"]:
                _await_end(job_id, _LEAVE_S)  # its tasks have answered, and leave by themselves
            return told
        finally:
            _take_back(job_id)


@contextmanager
def _board(launch: Launch, wanted: Wanted) -> Iterator[Board]:
    above = Path(wanted.slurm_folder or platformdirs.user_cache_path("chimera-tuner") / "slurm")
    try:
        above.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=above.resolve()))
        board = Board(folder)
        board.prepare(launch.to_json(), launch.ranks)
        board.sweep_others(_FORGOTTEN_S)
    except OSError as error:
        raise UnplacedError(
            Status.FAILED,
            f"no files can be made in {above}, which all nodes must share ({error}): name another folder "
            "with --shared-folder",
        ) from None
    try:
        yield board
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(job_id: str, launch: Launch, wanted: Wanted, *, places: SlurmPlaces, caller: Caller) -> None:
    """Until the job has begun; raises UnplacedError where it waits too long, or will not begin."""
    begun = time.monotonic()
    heard_at, tell_at = begun, begun + 2 * _LOOK_S
    while True:
        places.beat()
        now = time.monotonic()
        try:
            state, heard_at = job_state(job_id), now
        except SlurmError as error:
            if now - heard_at > _SILENCE_S:
                raise UnplacedError(Status.FAILED, f"Slurm does not answer any more: {error}") from None
            caller.wait(_LOOK_S)
            continue
        if not state.waits:
            return
        if now - begun > wanted.queue_limit_s:
            raise UnplacedError(
                Status.TIMED_OUT,
                f"Slurm job {job_id} waited for {now - begun:.0f} s, and --queue-timeout allows "
                f"{wanted.queue_limit_s:g} s: {_why(state)}; {room(launch, wanted)}",
            )
        if now > tell_at:
            tell_at = now + _TELL_S
            caller.say(waits=f"Slurm job {job_id} waits: {_why(state)}; {room(launch, wanted)}")
        caller.wait(_LOOK_S)


def _why(state: JobState) -> str:
    start = f", expected to start at {state.expected_start}" if state.expected_start else ""
    return f"Slurm says {state.state} ({state.reason}{start})"


def _take_back(job_id: str) -> None:
    with suppress(SlurmError):
        if not job_state(job_id).over:
            cancel_job(job_id)
    _await_end(job_id, _CANCEL_S)


def _await_end(job_id: str, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with suppress(SlurmError):
            if job_state(job_id).over:
                return
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(keep(run))
