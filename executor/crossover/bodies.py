"""What does one rank of a job run that takes turns? Its trial, inside the turnstile of its rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from executor.crossover.turns import Turns
from executor.crossover.turnstile import Turnstile
from executor.launchers.rank_process import Rank
from executor.trials.prepared_trial import prepare
from executor.trials.trial_request import read_trial

BODY = "executor.crossover.bodies:run"


@dataclass(frozen=True)
class Seat:
    """Which job of how many, and where the board of their turns is."""

    board: str
    job: int
    jobs: int

    def spec(self, request: dict[str, Any]) -> dict[str, Any]:
        """What `run` is given for the request of a trial."""
        return {"request": request, "seat": asdict(self)}


def run(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """Time the iterations in turns: the fields of executor.trials.rank_result.RankResult."""
    prepared, seat = prepare(read_trial(spec["request"])), Seat(**spec["seat"])
    with Turnstile(seat.board, rank=rank.rank, job=seat.job, jobs=seat.jobs) as turnstile:
        turns = Turns(turnstile, device=rank.device)
        if prepared.request.emulate is not None:
            from executor.trials import emulated_trial

            return emulated_trial.measure(prepared, rank, turns)
        from executor.trials import model_trial

        return model_trial.measure(prepared, rank, turns)
