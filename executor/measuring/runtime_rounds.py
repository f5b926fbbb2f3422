"""How long do short iterations take, and how long the layers that they run? Measured in turn, in two ranks.

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
from executor.trials.prepared_trial import PreparedTrial, prepare
from executor.trials.trial_request import read_trial

BODY = "executor.measuring.runtime_rounds:run"
_WARM_UP = 2


def run(spec: Mapping[str, Any], rank: Rank) -> dict[str, Any]:
    """The body of one rank: as many rounds as the spec wants of its profile and of each of its requests.

    A round is a profile, the start and end of every iteration of each request [request][k] on the monotonic
    clock, and the span of all of it.
    """
    requests, plan = spec["requests"], Plan(**spec["plan"] | {"micro_batch_sizes": tuple(spec["sizes"])})
    rank.progress.doing("connecting")
    dist.init_process_group("gloo", timeout=timedelta(seconds=spec["timeout_s"]))
    load_lazily_loaded(OPTIMIZERS["adam"])
    runs = [_Run(prepare(read_trial(dict(request))), rank) for request in requests]
    model = requests[0]["model"]
    description = describe_model(model, precision="float32", attention="flash")
    layers = open_model(
        model,
        sequence_length=description.sequence_length,
        precision=description.precision,
        attention=description.attention,
        seed=plan.seed,
    )
    rounds = []
    for number in range(spec["rounds"]):
        rank.progress.doing(f"measuring the runtime, round {number + 1} of {spec['rounds']}")
        start_s = time.monotonic()
        profile = take_profile(
            layers, plan, name=description.name, description=description, progress=lambda *_: dist.barrier()
        )
        spans = [each.iterations(spec["iterations"][which]) for which, each in enumerate(runs)]
        rounds.append(
            {
                "profile": profile.model_dump(mode="json", exclude_none=True),
                "spans": spans,
                "span_s": (start_s, time.monotonic()),
            }
        )
    for each in runs:
        each.training.close()
    return {"rounds": rounds}


class _Run:
    """One request, ready to be run again and again."""

    def __init__(self, prepared: PreparedTrial, rank: Rank) -> None:
        request = prepared.request
        model = open_model(
            request.model or "",
            sequence_length=request.sequence_length,
            precision="float32",
            seed=request.seed,
        )
        self._recording = Recording(count_events(prepared.program, rank.rank))
        self.training = training_of(prepared, model, rank, recording=self._recording)
        self._batch = batches_of(model, request, 1)

    def iterations(self, count: int) -> list[tuple[float, float]]:
        """Start and end of so many, after some to warm up."""

        def run_one(_number: int) -> None:
            self.training.run(self._batch)

        measured = time_iterations(
            run_one,
            self._recording,
            iterations=count,
            warm_up=_WARM_UP,
            settled=lambda: None,
        )
        return list(zip(measured.start_s.tolist(), measured.end_s.tolist(), strict=True))
