"""What does running one configuration of a request give? A trial, told as a row of a study.

Whatever goes wrong is a row with its status and a message: a trial never ends the study.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from executor.errors import ExecutorError
from executor.launchers.asking import Tell
from executor.launchers.launcher import Launcher
from executor.launchers.local import LocalLauncher
from executor.trials.load import wait_until_quiet
from executor.trials.prepared_trial import PreparedTrial, prepare
from executor.trials.trial import Trial as Run
from executor.trials.trial import run_trial
from executor.trials.trial_request import read_trial
from executor.trials.trial_result import result_of
from profiles import library
from profiles.timings import Profile
from tuner.compression import one_compression
from tuner.configuration import Configuration
from tuner.enactment import Expectation, expect
from tuner.errors import TunerError
from tuner.inputs import PlanInputs
from tuner.trial_rows import row_of
from tuner.trials import Trial, TrialStatus

FEWEST_ITERATIONS, MOST_ITERATIONS = 6, 60
QUIET_WAIT_S = 5.0
"""So long a trial waits for others to leave the machine alone."""
_LONGEST_MESSAGE = 1_000


@dataclass(frozen=True)
class How:
    """How the trials of a study run; the words of `executor.trials.trial_request`."""

    launcher: Launcher = field(default_factory=LocalLauncher)
    launcher_name: str = "local"
    device: str = "cpu"
    timed_s: float = 2.0
    """So long the timed iterations of a trial should take, by the prediction."""
    timeout_s: float = 300.0
    memory_limit_bytes: int | None = None
    seed: int = 0
    tell: Tell | None = None
    """Hears what a trial waits for before it begins."""


@dataclass(frozen=True)
class Attempt:
    """What a trial gave."""

    row: Trial
    peaks_bytes: tuple[int, ...] = ()
    """Of every rank."""
    run: Run | None = None
    """None where nothing could be launched."""


class Bench:
    """Runs configurations of one request; `model` is what is run: a preset, {"config": ...} or a factory."""

    def __init__(self, inputs: PlanInputs, model: Any, *, profile: Profile | None, how: How) -> None:
        self.inputs, self.how = inputs, how
        self._model, self._profile = model, profile

    def attempt(self, configuration: Configuration, predicted_s: float) -> Attempt:
        """Launch it and wait; what interrupts this ends the run."""
        how = self.how
        try:
            prepared, expected = self._prepare(configuration, predicted_s)
            if how.launcher.is_here:
                wait_until_quiet(QUIET_WAIT_S)
            run = run_trial(prepared, costs=expected.costs, launcher=how.launcher, tell=how.tell)
        except (ExecutorError, TunerError, OSError) as error:
            row = Trial(configuration, predicted_s, TrialStatus.FAILED, message=str(error)[:_LONGEST_MESSAGE])
            return Attempt(row)
        result = result_of(run)
        return Attempt(row_of(configuration, predicted_s, result), result.peak_memory_bytes, run)

    def _prepare(self, configuration: Configuration, predicted_s: float) -> tuple[PreparedTrial, Expectation]:
        """Cut as the plan cuts it."""
        request, is_factory = self.inputs.request, isinstance(self._model, str) and ":" in self._model
        expected = expect(request, configuration, library, profile=self._profile)
        iterations = int(np.clip(self.how.timed_s / predicted_s, FEWEST_ITERATIONS, MOST_ITERATIONS))
        value = configuration.document() | {
            "chunks": configuration.chunks if configuration.chunks > 1 else None,
            "partition": expected.stage_layers,
            "tied": expected.tied,
            "optimizer": request.optimizer,
            "optimizer_sharding": request.optimizer_sharding,
            "compression": str(one_compression(request.compression)),
            "model": self._model,
            "sequence_length": None if is_factory else request.sequence_length,
            "precision": request.precision,
            "iterations": iterations,
            "launcher": self.how.launcher_name,
            "device": self.how.device,
            "timeout_s": self.how.timeout_s,
            "memory_limit_bytes": self.how.memory_limit_bytes,
            "seed": self.how.seed,
        }
        return prepare(read_trial(value)), expected
