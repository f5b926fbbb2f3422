"""Who computes? Processes beside the service, or the thread that asks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from api.computing.result import Result


class Computing(Protocol):
    """Calls functions of `api.computing` on plain data."""

    def call(self, work: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """What `work` returns or raises; TimeoutProblem where the request's time is over before."""

    def __hash__(self) -> int:
        """What was computed can be kept by who computed it."""

    def begin(self) -> None:
        """Be ready for the first call."""

    def close(self) -> None:
        """Compute nothing more; what is being computed raises UnavailableProblem."""


@dataclass(frozen=True)
class Here:
    """The thread that asks computes: for tests, and where no processes can be started."""

    def call(self, work: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """What `work` returns or raises."""
        return work(*arguments, **named)

    def begin(self) -> None:
        """Nothing needs to be done."""

    def close(self) -> None:
        """Threads cannot be stopped: what they compute is for nobody."""
