"""Where does a job leave its turn? Before it would wait for its collectives: at an iteration's first UPDATE.

When it is its turn again it waits for what is left of them, updates, computes the next iteration's operations
and starts its collectives, and leaves again (`tuner.schedules.merging` predicts the same).
"""

from __future__ import annotations

import torch

from executor.crossover.turnstile import Turnstile
from executor.running.runtime import Updates
from tuner.schedules.program import Op


class Turns:
    """The turns of one rank of a job."""

    def __init__(self, turnstile: Turnstile, *, device: str) -> None:
        self._turnstile = turnstile
        self._on_cuda = torch.device(device).type == "cuda"
        self._entered = False
        self._is_computing = False

    def begin(self) -> None:
        """An iteration begins: the first waits for the first turn, the others go on in theirs."""
        if not self._entered:
            self._entered = True
            self._turnstile.enter()
        self._is_computing = True

    def leave(self) -> None:
        """Come back with the next turn, at the first UPDATE of an iteration; the others stay in it."""
        if not self._is_computing:
            return
        self._is_computing = False
        if self._on_cuda:  # the device is the next job's only when it has done what it was given
            torch.cuda.current_stream().synchronize()
        self._turnstile.pass_on()

    def around(self, updates: Updates) -> Updates:
        """The same updates, which leave the turn before they wait."""
        return _UpdatesInTurns(updates, self)


class _UpdatesInTurns:
    """Updates of `executor.running.runtime`."""

    def __init__(self, updates: Updates, turns: Turns) -> None:
        self._updates, self._turns = updates, turns

    def settle(self, op: Op) -> None:
        """Wait for the turn, and then for the collectives."""
        self._turns.leave()
        self._updates.settle(op)

    def update(self, op: Op) -> None:
        """The optimizer step of one stage."""
        self._updates.update(op)
