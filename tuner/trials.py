"""What can be tried, and what has been? The rows from which a study is refined."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from tuner.configuration import Configuration
from tuner.errors import RequestError


class TrialStatus(StrEnum):
    """Where a trial stands; the first two have not ended."""

    QUEUED = "queued"
    RUNNING = "running"
    OK = "ok"
    NOISY = "noisy"
    """It ran while something else used the machine: its time counts, but for less."""
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True)
class Option:
    """A configuration that may be tried, with what the model says of it."""

    configuration: Configuration
    predicted_s: float
    """Of an iteration."""
    needed_bytes: float
    """Of the fullest rank, without what is kept free."""
    capacity_bytes: float
    """That a rank may use: of the device, without what is kept free."""
    shares: tuple[float, ...] = ()
    """Of the iteration by part, the same parts for every option: what is slower than assumed shows there."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.predicted_s) and self.predicted_s > 0):
            raise RequestError(
                f"{self.configuration} is predicted to take {self.predicted_s} s an iteration: only finite "
                "times above 0 can be compared with measurements"
            )


@dataclass(frozen=True)
class Trial:
    """One row of a study: a configuration that was given to a worker, and what came back."""

    configuration: Configuration
    predicted_s: float
    """As the model said before any trial."""
    status: TrialStatus
    measured_s: float | None = None
    """Median iteration, of a trial that ran: one that is ok or noisy."""
    spread_s: float = 0.0
    """Standard deviation of the iterations."""
    peak_bytes: float | None = None
    """Of the fullest rank, where it was measured."""
    device_seconds: float = 0.0
    """Time that the trial took, times the devices that it held."""
    message: str | None = None
    """Why it ended as it did, where that is not well."""

    def __post_init__(self) -> None:
        measured = self.measured_s
        if self.ran != (measured is not None):
            raise RequestError(
                f"the trial of {self.configuration} is {self.status} with a measured iteration of "
                f"{measured}: a trial has one exactly when it is ok or noisy"
            )
        if measured is not None and not (math.isfinite(measured) and measured > 0):
            raise RequestError(
                f"the trial of {self.configuration} measured {measured} s an iteration: give a finite "
                "time above 0"
            )

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.status not in {TrialStatus.QUEUED, TrialStatus.RUNNING}

    @property
    def ran(self) -> bool:
        """Whether it has a time."""
        return self.status in {TrialStatus.OK, TrialStatus.NOISY}

    @property
    def is_open(self) -> bool:
        """Whether it ended without a sure answer, for a reason that may not be the configuration's."""
        return self.status in {TrialStatus.FAILED, TrialStatus.TIMED_OUT, TrialStatus.NOISY}


def in_order(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """The same order of the same rows, in whatever order they came."""
    return tuple(
        sorted(
            trials,
            key=lambda trial: (
                tuple(vars(trial.configuration).values()),
                trial.status,
                trial.measured_s or 0.0,
                trial.spread_s,
                trial.peak_bytes or 0.0,
                trial.device_seconds,
            ),
        )
    )


def measured(trials: Sequence[Trial]) -> tuple[Trial, ...]:
    """The rows that have a time, in a fixed order."""
    return tuple(trial for trial in in_order(trials) if trial.measured_s is not None)
