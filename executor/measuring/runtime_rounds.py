"""How long do iterations take, and how long the layers that they run? Measured in turn, in two ranks.

Seconds after each other, so that neither is told on a faster machine than the other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from executor.launchers.rank_process import Rank
from executor.measuring.profiling import Plan, take_profile
from executor.models.sources import describe_model, open_model
from executor.running.recording import Recording, count_events
from executor.trials.first_use import load_lazily_loaded
from executor.trials.iterations import time_iterations
from executor.trials.model_trial import OPTIMIZERS, batches_of, training_of
from executor.trials.prepared_trial import prepare
from executor.trials.trial_request import read_trial

BODY = "executor.measuring.runtime_rounds:run"
_WARM_UP = 1


def run(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """The body of one rank: as many rounds as the spec wants of all its subjects.

    Of every subject a round has its profile, and start and end of every iteration of each of its requests
    [request][k] on the monotonic clock.
    """
    plan = Plan(**spec["plan"] | {"micro_batch_sizes": tuple(spec["plan"]["micro_batch_sizes"])})
    rank.progress.doing("connecting")
    dist.init_process_group("gloo", timeout=timedelta(seconds=spec["timeout_s"]))
    load_lazily_loaded(OPTIMIZERS["adam"])
    subjects = [_Subject(subject, plan, rank) for subject in spec["subjects"]]
    rounds, spans = [], []
    for number in range(spec["rounds"]):
        rank.progress.doing(f"measuring the runtime, round {number + 1} of {spec['rounds']}")
        start_s = time.monotonic()
        rounds.append([subject.measure() for subject in subjects])
        spans.append((start_s, time.monotonic()))
    for subject in subjects:
        subject.close()
    return {"rounds": rounds, "spans": spans}


class _Subject:
    """A model with its requests, ready to be measured again and again."""

    def __init__(self, told: Mapping[str, Any], plan: Plan, rank: Rank) -> None:
        requests = [read_trial(dict(request)) for request in told["requests"]]
        self._plan, self._iterations = plan, told["iterations"]
        source, length = requests[0].model or "", requests[0].sequence_length
        shape: dict[str, Any] = {"sequence_length": length, "precision": "float32", "attention": "flash"}
        self._description = describe_model(source, **shape)
        self._model = open_model(source, **shape | {"sequence_length": self._description.sequence_length})
        self._runs = []
        for request in requests:
            prepared = prepare(request)
            recording = Recording(count_events(prepared.program, rank.rank))
            training = training_of(prepared, self._model, rank, recording=recording)
            self._runs.append((training, batches_of(self._model, request, 1), recording))

    def measure(self) -> dict[str, Any]:
        """One round."""
        profile = take_profile(
            self._model,
            self._plan,
            name=self._description.name,
            description=self._description,
            progress=lambda *_: dist.barrier(),
        )
        spans = []
        for (training, batch, recording), count in zip(self._runs, self._iterations, strict=True):

            def run_one(_number: int, training: Any = training, batch: Any = batch) -> None:
                training.run(batch)

            measured = time_iterations(
                run_one, recording, iterations=count, warm_up=_WARM_UP, settled=lambda: None
            )
            spans.append(list(zip(measured.start_s.tolist(), measured.end_s.tolist(), strict=True)))
        return {"profile": profile.model_dump(mode="json", exclude_none=True), "spans": spans}

    def close(self) -> None:
        """Let go of the process groups."""
        for training, _, _ in self._runs:
            training.close()
