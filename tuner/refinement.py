"""What should be tried next, or is it time to stop? A pure function from the rows of a study.

The model ranks, the trials correct it (`tuner.correction`, `tuner.memory_correction`), and what can still
win is proposed: the model's best first, then by expected improvement (Jones, Schonlau and Welch, 1998)
among the points that Optuna's TPE sampler draws and the best by the corrected model. A configuration is
tried once; one that failed or timed out once more, when nothing else can win. Rows that are queued or
running count as tried, so workers that ask side by side get different configurations.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import erf, exp, pi, sqrt

import numpy as np

from tuner.configuration import Configuration
from tuner.correction import Correct, Corrected, correct
from tuner.errors import RequestError
from tuner.memory_correction import corrected_bytes
from tuner.schedules.scheme import Floats
from tuner.trials import Option, Trial, TrialStatus, in_order, measured

MOST_ATTEMPTS = 2
"""Of a configuration whose trials fail or time out."""

_LEADERS = 4
"""Best by expected improvement that compete with what the sampler draws."""


@dataclass(frozen=True)
class Budget:
    """What a study may spend; None for any amount."""

    trials: int | None = None
    """Rows, however they end."""
    device_seconds: float | None = None
    """A trial is started only if one as long as those that ended, on average, is within it."""


class StopReason(StrEnum):
    """Why nothing more is tried."""

    NOTHING_CAN_WIN = "nothing_can_win"
    EVERYTHING_TRIED = "everything_tried"
    TRIALS_SPENT = "trials_spent"
    DEVICE_SECONDS_SPENT = "device_seconds_spent"


@dataclass(frozen=True)
class Proposal:
    """A configuration to try, and why."""

    configuration: Configuration
    predicted_s: float
    """By the model, before any trial."""
    expected_s: float
    low_s: float
    high_s: float
    by: str
    """`ranking`, `correction`, `sampler` or `retry`."""
    reason: str


@dataclass(frozen=True)
class Stop:
    """Nothing more is tried."""

    reason: StopReason
    text: str


@dataclass(frozen=True)
class Decision:
    """What to try now, or that and why nothing is; neither where trials that run must end first."""

    proposals: tuple[Proposal, ...] = ()
    stop: Stop | None = None
    waiting_for: int = 0
    """Trials that are queued or running."""


def refine(
    options: Sequence[Option],
    trials: Sequence[Trial],
    *,
    seed: int,
    budget: Budget = Budget(),
    count: int = 1,
    learn: Correct = correct,
    sampling: bool = True,
) -> Decision:
    """Up to `count` configurations to try next, given every row of the study so far, those that run included.

    The same rows give the same answer in whatever order they come. Without `sampling` Optuna is not needed,
    and the best by expected improvement alone are proposed. Raises RequestError without options.
    """
    if not options:
        raise RequestError(
            "there is no configuration to try: nothing that the model describes fits; plan without trials to "
            "see the smallest change that would"
        )
    if count < 1:
        raise RequestError(f"{count} configurations were asked for: ask for 1 or more")
    proposals: list[Proposal] = []
    rows = list(in_order(trials))
    stop = None
    while len(proposals) < count:
        stop = _spent(rows, budget)
        state = None if stop else _State(options, rows, learn)
        proposal = state.propose(seed + len(rows) if sampling else None) if state else None
        if state and proposal is None:
            stop = state.stop()
        if proposal is None:
            break
        proposals.append(proposal)
        rows.append(Trial(proposal.configuration, proposal.predicted_s, TrialStatus.QUEUED))
    waiting = sum(not trial.ended for trial in trials)
    final = not proposals and (waiting == 0 or (stop and stop.reason is StopReason.TRIALS_SPENT))
    return Decision(tuple(proposals), stop if final else None, waiting)


def _spent(rows: Sequence[Trial], budget: Budget) -> Stop | None:
    """Which part of the budget leaves no room for another trial."""
    if budget.trials is not None and len(rows) >= budget.trials:
        return Stop(StopReason.TRIALS_SPENT, f"{len(rows)} of {budget.trials} trials were started")
    if budget.device_seconds is None:
        return None
    ended = [trial.device_seconds for trial in rows if trial.ended]
    typical = sum(ended) / len(ended) if ended else 0.0
    spent = sum(ended) + typical * (len(rows) - len(ended))
    if spent + typical <= budget.device_seconds and spent < budget.device_seconds:
        return None
    return Stop(
        StopReason.DEVICE_SECONDS_SPENT,
        f"{spent:,.0f} of {budget.device_seconds:,.0f} device-seconds are spent, and a trial takes "
        f"{typical:,.0f}",
    )


class _State:
    """What the rows say of the options."""

    def __init__(self, options: Sequence[Option], rows: Sequence[Trial], learn: Correct) -> None:
        self._options, self._rows = options, rows
        self._corrected: Corrected = learn(rows, options)
        self._capacity = np.array([option.capacity_bytes for option in options])
        self._needed = corrected_bytes(rows, options)
        self._best = min((trial.measured_s for trial in rows if trial.measured_s), default=float("inf"))
        attempts = Counter(trial.configuration for trial in rows)
        closed = {trial.configuration for trial in rows if not trial.is_open}
        tried = np.array([attempts[option.configuration] for option in options])
        shut = np.array([option.configuration in closed for option in options])
        self.fits = self._needed <= self._capacity
        self.can_win = self._corrected.low_s < self._best
        self.untried = (tried == 0) & self.fits
        self.again = (tried > 0) & (tried < MOST_ATTEMPTS) & ~shut & self.fits

    def propose(self, seed: int | None) -> Proposal | None:
        """The next configuration, without the sampler where it has no seed; None where none can win."""
        fresh = np.flatnonzero(self.untried & self.can_win)
        if fresh.size:
            return self._fresh(fresh, seed)
        again = np.flatnonzero(self.again & self.can_win)
        if again.size:
            place = int(again[self._corrected.expected_s[again].argmin()])
            return self._proposal(
                place, "retry", "its trial ended without a sure answer, and nothing else can win"
            )
        return None

    def stop(self) -> Stop:
        """Why there is no proposal."""
        left = np.flatnonzero(self.untried | self.again)
        if not left.size:
            refused = int((~self.fits).sum())
            return Stop(
                StopReason.EVERYTHING_TRIED,
                f"all {len(self._options)} configurations were tried, or do not fit ({refused})",
            )
        nearest = float(self._corrected.low_s[left].min())
        return Stop(
            StopReason.NOTHING_CAN_WIN,
            f"the best of {left.size} untried configurations takes {nearest:.4g} s at the optimistic end of "
            f"its error bar, and {self._best:.4g} s was measured",
        )

    def _fresh(self, places: np.ndarray, seed: int | None) -> Proposal:
        """The model's best at first; then the greatest expected improvement among what is proposed."""
        expected = self._corrected.expected_s
        if not measured(self._rows):
            place = int(places[expected[places].argmin()])
            return self._proposal(place, "ranking", f"first by the model: {expected[place]:.4g} s")
        gains = self._gains(places)
        leaders = places[np.argsort(-gains, kind="stable")[:_LEADERS]]
        drawn = [] if seed is None else self._drawn(places, seed)
        best = {int(place): gain for place, gain in zip(places, gains, strict=True)}
        place = max(sorted({*leaders.tolist(), *drawn}), key=lambda each: best[each])
        by = "sampler" if place in drawn else "correction"
        return self._proposal(
            place,
            by,
            f"can take {self._corrected.low_s[place]:.4g} s where {self._best:.4g} s was measured; it is "
            f"expected to gain {best[place]:.2%}",
        )

    def _drawn(self, places: np.ndarray, seed: int) -> list[int]:
        """The configurations nearest to what the sampler draws."""
        from tuner.sampling import drawn  # loads Optuna

        left = places[np.argsort(self._corrected.expected_s[places], kind="stable")]
        return drawn(
            self._rows,
            self._options,
            left,
            expected_s=self._corrected.expected_s,
            over=self._needed / self._capacity - 1,
            seed=seed,
        )

    def _gains(self, places: np.ndarray) -> Floats:
        """Expected improvement over the best, relative: E[max(0, log(best / time))] [place]."""
        mean = np.log(self._best / self._corrected.expected_s[places])
        deviation = self._corrected.deviation[places]
        z = mean / deviation
        density = np.array([exp(-(x**2) / 2) / sqrt(2 * pi) for x in z])
        share = np.array([(1 + erf(x / sqrt(2))) / 2 for x in z])
        return np.asarray(mean * share + deviation * density)

    def _proposal(self, place: int, by: str, reason: str) -> Proposal:
        option, corrected = self._options[place], self._corrected
        return Proposal(
            configuration=option.configuration,
            predicted_s=option.predicted_s,
            expected_s=float(corrected.expected_s[place]),
            low_s=float(corrected.low_s[place]),
            high_s=float(corrected.high_s[place]),
            by=by,
            reason=reason,
        )
