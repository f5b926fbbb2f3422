"""How did a run end? In one of four ways; and if not well, because of which rank, doing what, and why?"""

from __future__ import annotations

import signal
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """The four ways."""

    OK = "ok"
    OUT_OF_MEMORY = "out_of_memory"
    """A result like any other: this configuration does not fit."""
    FAILED = "failed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True)
class OperationAt:
    """An operation of a rank's program."""

    index: int
    """Its number in the program of the rank."""
    text: str
    kind: str
    pipe: int
    stage: int
    micro_batch: int
    iteration: int


@dataclass(frozen=True)
class Failure:
    """What ended a run."""

    message: str
    """What happened, the numbers, and what to do."""
    rank: int | None
    """None where no rank had begun."""
    operation: OperationAt | None = None
    """What the rank was doing, if it had begun its program."""
    activity: str = ""
    """What it was doing outside the program, in words."""
    exception: str | None = None
    """Name of the type."""
    exit_code: int | None = None
    signal: str | None = None
    """Name of the signal that ended the process."""
    requested_bytes: int | None = None
    """That could not be allocated."""
    limit_bytes: int | None = None
    """That the rank was allowed."""
    log: str = ""
    """The end of the rank's log, or of the agent's."""
    others: tuple[int, ...] = ()
    """Ranks that failed as well."""
    lost: bool = False
    """Something outside ended the run, or never began it: nothing is known of the configuration."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended; `results` has what every rank returned if it ended well, and is empty otherwise."""

    status: Status
    elapsed_s: float
    results: tuple[Any, ...] = ()
    failure: Failure | None = None

    def document(self) -> dict[str, Any]:
        """JSON keys, without the results."""
        failure = asdict(self.failure) if self.failure else None
        return {"status": str(self.status), "elapsed_s": self.elapsed_s, "failure": failure}


def signal_name(number: int) -> str:
    """As SIGKILL; unknown ones by their number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
