"""Do jobs take their turns in order, and is one that dies skipped?"""

import os
import signal
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import pytest

from executor.crossover.turnstile import TurnBoard, Turnstile
from executor.errors import ConfigurationError, TrialError

FORK = get_context("fork")


def take_turns(path: str, job: int, jobs: int, count: int, told: Connection) -> None:
    """Tell of the beginning and the end of so many turns; of 0 the second is not left."""
    try:
        with Turnstile(path, rank=1, job=job, jobs=jobs) as turnstile:
            turnstile.enter()
            for turn in range(count or 10**9):
                told.send((job, turn, "begins"))
                if not count and turn == 1:
                    signal.pause()
                told.send((job, turn, "ends"))
                if turn + 1 != count:
                    turnstile.pass_on()
    except TrialError:
        told.send((job, 0, "refused"))


def start(board: TurnBoard, counts: dict[int, int], told: Connection) -> dict[int, Any]:
    """A process for each job."""
    processes = {
        job: FORK.Process(target=take_turns, args=(board.path, job, board.jobs, count, told), daemon=True)
        for job, count in counts.items()
    }
    for process in processes.values():
        process.start()
    return processes


def told_by(reading: Connection, count: int) -> list[tuple[int, int, str]]:
    """So many messages; fails where one does not come."""
    messages = []
    for _ in range(count):
        assert reading.poll(60), f"no more than {messages}"
        messages.append(reading.recv())
    return messages


def test_turns_go_round_in_the_order_of_the_jobs() -> None:
    """No turn begins before the one ahead of it has ended, and a job that is done is left out."""
    board = TurnBoard(ranks=2, jobs=3)
    reading, writing = FORK.Pipe(duplex=False)
    start(board, {2: 200, 0: 200, 1: 3}, writing)
    expected = [
        (job, turn, what)
        for turn in range(200)
        for job in range(3)
        if job != 1 or turn < 3
        for what in ("begins", "ends")
    ]
    assert told_by(reading, len(expected)) == expected
    board.close()


def test_a_job_that_is_killed_in_its_turn_or_waiting_for_it_is_skipped() -> None:
    """By the end of its process alone; the others go on from where they were."""
    board = TurnBoard(ranks=2, jobs=3)
    reading, writing = FORK.Pipe(duplex=False)
    processes = start(board, {0: 3, 1: 0, 2: 0}, writing)
    assert told_by(reading, 9)[-1] == (1, 1, "begins")
    for job in (2, 1):  # one waits, the other is in its turn
        os.kill(processes[job].pid, signal.SIGKILL)
    assert told_by(reading, 2) == [(0, 2, "begins"), (0, 2, "ends")]
    board.close()


def test_a_job_that_never_comes_is_waited_for_until_its_end_is_told() -> None:
    """And one whose turns are ended from outside raises when it would pass them on."""
    board = TurnBoard(ranks=2, jobs=2)
    reading, writing = FORK.Pipe(duplex=False)
    processes = start(board, {0: 0}, writing)
    assert not reading.poll(0.2)
    board.end(1)
    assert told_by(reading, 1) == [(0, 0, "begins")]
    processes[0].kill()
    board.close()
    board = TurnBoard(ranks=2, jobs=1)
    with Turnstile(board.path, rank=0, job=0, jobs=1) as turnstile:
        turnstile.enter()
        turnstile.pass_on()
        board.end(0)
        with pytest.raises(TrialError, match="ended from outside"):
            turnstile.pass_on()
    with pytest.raises(ConfigurationError, match="on 2 ranks, none for rank 2 of job 0"):
        Turnstile(board.path, rank=2, job=0, jobs=1)
    board.close()
