"""Which trials are made, and when is it enough? `tuner.refinement` decides, a bench runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from executor.tuning.bench import Attempt, Bench
from tuner.refinement import Budget, Proposal, Stop, refine
from tuner.trials import Option, Trial

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
        self.stop: Stop | None = None
        """Why nothing more is tried."""

    def attempts(self, begin: Begin) -> Iterator[Attempt]:
        """Make trials until the decision is to stop; `begin` is told of each before it runs."""
        while True:
            decision = refine(
                self._options, self.rows, seed=self._seed, budget=self._budget, sampling=self._sampling
            )
            self.stop = decision.stop
            if not decision.proposals:
                return
            proposal = decision.proposals[0]
            begin(len(self.rows) + 1, proposal)
            attempt = self._bench.attempt(proposal.configuration, proposal.predicted_s)
            self.rows.append(attempt.row)
            yield attempt
