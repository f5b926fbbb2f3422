"""Which trials are made, and when is it enough? `tuner.refinement` decides, a bench runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from executor.tuning.bench import Attempt, Bench
from tuner.refinement import Budget, Proposal, refine
from tuner.trials import Option, Trial, TrialStatus

MOST_FAILURES = 4
"""In a row: what fails so often fails for a reason that the next trial will meet as well."""

_NO_ANSWER = frozenset({TrialStatus.FAILED, TrialStatus.TIMED_OUT})

Begin = Callable[[int, Proposal], None]
"""(number of the trial from 1, what is tried)"""


class Session:
    """The trials of one request; `rows` are those of before, and grow."""

    def __init__(
        self,
        bench: Bench,
        options: Sequence[Option],
        rows: Sequence[Trial] = (),
        *,
        budget: Budget,
        seed: int = 0,
        sampling: bool = True,
    ) -> None:
        self._bench, self._options, self._budget = bench, options, budget
        self._seed, self._sampling = seed, sampling
        self.rows = list(rows)
        self.stopped: str | None = None
        """Why nothing more is tried."""

    def attempts(self, begin: Begin) -> Iterator[Attempt]:
        """Make trials until the decision is to stop; `begin` is told of each before it runs."""
        failures = 0
        while True:
            decision = refine(
                self._options, self.rows, seed=self._seed, budget=self._budget, sampling=self._sampling
            )
            self.stopped = decision.stop.text if decision.stop else None
            if not decision.proposals:
                return
            proposal = decision.proposals[0]
            begin(len(self.rows) + 1, proposal)
            attempt = self._bench.attempt(proposal.configuration, proposal.predicted_s)
            self.rows.append(attempt.row)
            yield attempt
            failures = failures + 1 if attempt.row.status in _NO_ANSWER else 0
            if failures == MOST_FAILURES:
                self.stopped = (
                    f"{failures} trials in a row gave no answer, the last because: {attempt.row.message}"
                )
                return
