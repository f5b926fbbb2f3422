"""How fast do several jobs run that take turns on the same ranks? All at once, against each alone.

Every job keeps its own processes and its own program, so its weights are those that it has alone, and one
that dies leaves the others running. Rank r of all jobs is one place: its processes share a core or a device
and compute in turns (`executor.crossover.turnstile`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from executor.crossover.bodies import BODY, Seat
from executor.crossover.overlap import Overlap, find_overlaps
from executor.crossover.refusal import refuse_unequal
from executor.crossover.turnstile import TurnBoard
from executor.errors import ConfigurationError
from executor.launchers.asking import Tell
from executor.launchers.launch import Launch
from executor.launchers.local import LocalLauncher
from executor.launchers.outcome import Outcome, Status
from executor.trials.prepared_trial import PreparedTrial
from executor.trials.resolution import resolve
from executor.trials.trial import Trial, run_trial
from executor.trials.trial_request import TrialRequest


@dataclass(frozen=True)
class CrossoverRun:
    """What was measured of jobs in turns, and of each alone."""

    trials: tuple[Trial, ...]
    """Of the jobs, in turns: an iteration lasts until the job's next one."""
    solo: tuple[Trial, ...]
    """Each alone, run in the same way; empty where their times were given, or not asked for."""
    solo_s: tuple[float, ...] | None
    """Seconds of an iteration of each alone; None where one of them is not known."""

    @property
    def statuses(self) -> tuple[Status, ...]:
        """How each job ended."""
        return tuple(trial.status for trial in self.trials)

    @property
    def period_s(self) -> float | None:
        """Seconds for an iteration of every job in steady state; None unless all ended well.

        The median from an end of an iteration to the job's next, while all jobs were running; None where they
        were not long enough.
        """
        return _period_s(self.trials)

    @property
    def measured_speedup(self) -> float | None:
        """Against the jobs one after the other, iteration by iteration."""
        if self.period_s is None or self.solo_s is None:
            return None
        return sum(self.solo_s) / self.period_s

    @property
    def quiet(self) -> bool:
        """Whether the machine was, in every run."""
        return all(trial.quiet is not False for trial in (*self.trials, *self.solo))

    @cached_property
    def overlaps(self) -> tuple[Overlap, ...]:
        """Where two jobs computed on one rank at once; none is what has to be."""
        return find_overlaps(self.trials)

    @property
    def same_weights(self) -> bool | None:
        """Whether the weights of every job are, bit for bit, those that it had alone; None if unknown."""
        if not self.solo:
            return None
        digests = [[rank.weights_digest for rank in trial.ranks] for trial in (*self.trials, *self.solo)]
        if any(not each or None in each for each in digests):
            return None
        return digests[: len(self.trials)] == digests[len(self.trials) :]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "jobs": [trial.document() for trial in self.trials],
            "solo": [trial.document() for trial in self.solo],
            "measured_period_s": self.period_s,
            "solo_iteration_s": None if self.solo_s is None else list(self.solo_s),
            "measured_speedup": self.measured_speedup,
            "overlaps": [overlap.document() for overlap in self.overlaps],
            "same_weights": self.same_weights,
            "machine_quiet": self.quiet,
        }


def run_crossover(
    requests: Sequence[TrialRequest],
    *,
    solo_s: Sequence[float] | None = None,
    alone: bool = True,
    tell: Tell | None = None,
) -> CrossoverRun:
    """Run every job alone, unless `solo_s` says what that takes or `alone` is False, and then all in turns.

    However a job ends is the outcome of its trial, and the others go on. Raises ConfigurationError where jobs
    cannot share ranks, TrialError where it could not be found out how one ended. Whatever interrupts this
    call ends the jobs.
    """
    if solo_s is not None and len(solo_s) != len(requests):
        raise ConfigurationError(f"{len(solo_s)} times of jobs alone for {len(requests)} jobs: give one each")
    refuse_unequal(requests)
    prepared = [resolve(request)[0] for request in requests]
    solo: list[Trial] = []
    if alone and solo_s is None:
        for number, job in enumerate(prepared):
            if tell is not None:
                tell(f"job {number} alone")
            solo += _run_together([job])
    if tell is not None:
        tell(f"{len(prepared)} jobs in turns")
    trials = _run_together(prepared)
    times = [_period_s([each]) for each in solo] if solo_s is None else solo_s
    known = tuple(seconds for seconds in times if seconds is not None)
    return CrossoverRun(tuple(trials), tuple(solo), known if len(known) == len(prepared) else None)


def _period_s(trials: Sequence[Trial]) -> float | None:
    """From the first timed iteration of the last job to come, to the last but one of the first to leave.

    Beside the very last iteration of a job the next one computes no more.
    """
    if any(trial.status != Status.OK for trial in trials):
        return None
    ends = [np.max([rank.end_s for rank in trial.ranks], axis=0) for trial in trials]
    from_s, until_s = max(each[0] for each in ends), min(each[-2] for each in ends)
    periods = [np.diff(each[(each >= from_s) & (each <= until_s)]) for each in ends]
    together = np.concatenate(periods)
    return float(np.median(together)) if len(together) else None


class _SeatedLauncher(LocalLauncher):
    """Hands a job's ranks their seat, and tells the board when the job has ended."""

    def __init__(self, seat: Seat, board: TurnBoard) -> None:
        self._seat, self._board = seat, board

    def run(self, launch: Launch, tell: Tell | None = None) -> Outcome:
        """Run every rank in turns."""
        try:
            return super().run(replace(launch, spec=self._seat.spec(launch.spec)), tell)
        finally:
            self._board.end(self._seat.job)


def _run_together(jobs: Sequence[PreparedTrial]) -> list[Trial]:
    """All at the same time, each from a thread of its own."""
    board = TurnBoard(ranks=jobs[0].request.ranks, jobs=len(jobs))
    found: dict[int, Trial | BaseException] = {}

    def work(number: int) -> None:
        launcher = _SeatedLauncher(Seat(board.path, number, len(jobs)), board)
        try:
            found[number] = run_trial(jobs[number], body=BODY, launcher=launcher)
        except BaseException as error:  # noqa: BLE001 (raised again by whoever waits for the thread)
            found[number] = error

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(jobs))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for number in range(len(jobs)):
            board.end(number)
        for thread in threads:
            thread.join()
        board.close()
    trials = []
    for number in range(len(jobs)):
        ended = found[number]
        if isinstance(ended, BaseException):
            raise ended
        trials.append(ended)
    return trials
