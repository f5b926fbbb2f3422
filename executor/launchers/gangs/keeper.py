"""Who waits for a gang on a cluster? A process beside the caller; it takes the gang back when that ends."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from executor.launchers.gangs.gang import Ended
from executor.launchers.gangs.seen import Document
from executor.launchers.launch import Launch, read_launch
from executor.launchers.lifeline import Abandoned, Lifeline
from executor.launchers.outcome import Status
from executor.launchers.wanted import Wanted

_MARGIN_S = 120.0
"""So much longer than queue, start and run the keeper may take: to connect, and to take everything back."""
_START_UP_S = 300.0
END_S = 25.0
"""How long it may take to take everything back after its lifeline was cut."""


class UnplacedError(Exception):
    """The gang could not be placed; its argument is the Ended."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.ended = Ended(status, message)


def for_cluster(launch: Launch, wanted: Wanted) -> Launch:
    """A launch whose ranks start on other machines, perhaps for the first time, with GPUs of their own."""
    limits = replace(launch.limits, start_up_s=max(_START_UP_S, launch.limits.start_up_s))
    apart = wanted.gpus_of(launch) > 0
    return replace(launch, limits=limits, apart=apart, logs=None, folder=str(Path.cwd()))


def longest_s(launch: Launch, wanted: Wanted) -> float:
    """How long a keeper may take for its answer."""
    limits = launch.limits
    return wanted.queue_limit_s + limits.start_up_s + limits.timeout_s + _MARGIN_S


class Caller(Lifeline):
    """Whoever asked for a run, seen from its keeper."""

    def __init__(self, caller: int, scratch: str) -> None:
        """Stdout becomes the caller's alone; what libraries print there goes to stderr."""
        super().__init__(caller)
        self._scratch = scratch
        self._answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def say(self, **document: Any) -> None:
        """The answer, or {"waits": text}."""
        self._answers.write(json.dumps(document) + "\n")
        self._answers.flush()

    def say_ended(self, ended: Ended) -> None:
        """The answer that the gang never began."""
        self.say(ended=asdict(ended), elapsed_s=0.0)

    def leave(self) -> None:
        """Remove what the caller made for this run, who may be gone."""
        shutil.rmtree(self._scratch, ignore_errors=True)


def keep(run: Callable[[Launch, Wanted, Caller], Document]) -> int:
    """Run a launch for the caller: CALLER LAUNCH SCRATCH WANTED, as `executor.launchers.asking` gives them.

    `run` raises UnplacedError, or Abandoned when it has taken everything back.
    """
    caller = Caller(int(sys.argv[1]), sys.argv[3])
    caller.listen()
    launch, wanted = read_launch(sys.argv[2]), Wanted.read(json.loads(sys.argv[4]))
    try:
        caller.say(**run(launch, wanted, caller))
    except UnplacedError as error:
        caller.say_ended(error.ended)
    except (Abandoned, BrokenPipeError):
        return 1
    finally:
        caller.leave()
    return 0
