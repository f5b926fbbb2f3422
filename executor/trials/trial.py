"""How does a configuration do when it is really run? Timed iterations after warm-up, beside the prediction.

Every rank runs a body, `EMULATED_BODY` or `MODEL_BODY`: a function of the request's JSON and of its
`executor.launchers.rank_process.Rank` that returns the fields of a `executor.trials.rank_result.RankResult`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from executor.errors import ExecutorError
from executor.launchers.asking import Tell
from executor.launchers.launch import Launch
from executor.launchers.launcher import Launcher
from executor.launchers.local import LocalLauncher
from executor.launchers.outcome import Outcome, Status
from executor.launchers.peak_memory import PeakMemory
from executor.launchers.watchdog import Limits
from executor.models.loading import loaded_for
from executor.running.recording import measured_timeline
from executor.trials.load import LoadMonitor, Quietness
from executor.trials.prepared_trial import PreparedTrial
from executor.trials.rank_result import RankResult, on_one_clock
from tuner.operation_costs import OperationCosts
from tuner.simulation import simulate
from tuner.timeline import Floats, Timeline

EMULATED_BODY = "executor.trials.emulated_trial:run"
MODEL_BODY = "executor.trials.model_trial:run"


@dataclass(frozen=True)
class Trial:
    """A run and what was predicted for it."""

    prepared: PreparedTrial
    outcome: Outcome
    predicted: Timeline | None
    ideal_iteration_s: float | None
    """With free messages, collectives and updates."""
    ranks: tuple[RankResult, ...] = ()
    iteration_s: tuple[float, ...] = ()
    """Of all timed iterations."""
    kept: tuple[bool, ...] = ()
    """Which of them were undisturbed."""
    quiet: bool | None = True
    """Whether the machine was quiet; None where the ranks ran elsewhere, whose load is not known."""

    @property
    def status(self) -> Status:
        """How the run ended."""
        return self.outcome.status

    @property
    def counted_s(self) -> tuple[float, ...]:
        """The undisturbed iterations; all of them where the machine was not quiet."""
        if self.quiet is False:
            return self.iteration_s
        return tuple(s for s, kept in zip(self.iteration_s, self.kept, strict=True) if kept)

    @property
    def measured(self) -> Timeline | None:
        """Group 0 in the iteration nearest to the median."""
        if not self.ranks:
            return None
        program = self.prepared.program
        number = int(np.argmin(np.abs(np.array(self.iteration_s) - np.median(self.counted_s))))
        number = number if program.synchronous else 0
        group = self.ranks[: program.depth]
        moments = [np.array(rank.moments[number], dtype=np.float64).reshape(3, -1) for rank in group]
        return measured_timeline(program, moments, start_s=min(rank.start_s[number] for rank in group))

    def document(self) -> dict[str, Any]:
        """The keys of `chimera run --json`."""
        check = next((rank.check for rank in self.ranks), None)
        predicted = self.predicted
        return {
            **self.outcome.document(),
            "configuration": self.prepared.configuration.document(),
            "measured_iteration_s": _spread(self.counted_s),
            "iterations_s": list(self.iteration_s),
            "iterations_kept": sum(self.kept),
            "machine_quiet": self.quiet,
            "predicted_iteration_s": None if predicted is None else float(np.median(periods(predicted))),
            "ideal_iteration_s": self.ideal_iteration_s,
            "peak_memory_bytes": [_memory(rank).used_bytes for rank in self.ranks],
            "memory": [_memory(rank).document() for rank in self.ranks],
            "check": check,
        }


def run_trial(
    prepared: PreparedTrial,
    *,
    costs: OperationCosts | None = None,
    body: str | None = None,
    launcher: Launcher | None = None,
    tell: Tell | None = None,
) -> Trial:
    """Launch it, wait, and put what was measured beside what `costs`, or the request's own, predict.

    `body` is the one for the request unless given, and the ranks run on this machine unless a launcher is;
    `tell` hears what that waits for. However the run ends, it is the trial's outcome; raises TrialError if
    that could not be found out.
    """
    launcher = launcher or LocalLauncher()
    body = body or (EMULATED_BODY if prepared.request.emulate else MODEL_BODY)
    costs = costs or prepared.costs
    predicted = simulate(prepared.program, costs) if costs else None
    ideal = simulate(prepared.program, _free(costs)) if costs else None
    ideal_s = float(np.median(periods(ideal))) if ideal else None
    with LoadMonitor() as monitor:
        outcome = launcher.run(_launch(prepared, body), tell)
    if outcome.status != Status.OK:
        return Trial(prepared, outcome, predicted, ideal_s)
    try:
        ranks = on_one_clock(tuple(RankResult(**result) for result in outcome.results))
        spans = iteration_spans(prepared, ranks)
    except (TypeError, ValueError, IndexError) as error:
        raise ExecutorError(f"{body} did not return what a rank has to: {error}") from error
    all_kept = Quietness(tuple(True for _ in spans))
    quietness = monitor.judge(spans) if launcher.is_here else all_kept
    times = tuple(end_s - start_s for start_s, end_s in spans)
    bare = dataclasses.replace(outcome, results=())
    quiet = quietness.quiet if launcher.is_here else None
    return Trial(prepared, bare, predicted, ideal_s, ranks, times, quietness.kept, quiet)


def iteration_spans(prepared: PreparedTrial, ranks: Sequence[RankResult]) -> list[tuple[float, float]]:
    """Start and end of every timed iteration over all ranks, in seconds.

    Iterations of an asynchronous schedule overlap: one lasts from the end of the one before it to its own.
    """
    if prepared.program.synchronous:
        starts = np.min([rank.start_s for rank in ranks], axis=0)
        ends = np.max([rank.end_s for rank in ranks], axis=0)
        return list(zip(starts.tolist(), ends.tolist(), strict=True))
    depth, warm_up = prepared.program.depth, prepared.request.warm_up
    start_s = min(rank.start_s[0] for rank in ranks)
    groups = [ranks[first : first + depth] for first in range(0, len(ranks), depth)]
    moments = [[np.array(rank.moments[0]).reshape(3, -1) for rank in group] for group in groups]
    timelines = [measured_timeline(prepared.program, group, start_s=0.0) for group in moments]
    ends = np.max([iteration_ends(timeline) for timeline in timelines], axis=0)
    bounds = np.concatenate([[start_s], ends])[warm_up:].tolist()
    return list(pairwise(bounds))


def iteration_ends(timeline: Timeline) -> Floats:
    """When the last event of each iteration ends [k]."""
    compiled = timeline.compiled
    iteration = compiled.program.columns.iteration[compiled.first]
    ends = np.zeros(compiled.program.iterations)
    np.maximum.at(ends, iteration, timeline.end_s)
    return ends


def periods(timeline: Timeline) -> Floats:
    """What each iteration takes, of several the first, which fills the pipeline, left out [k]."""
    ends = iteration_ends(timeline)
    return np.diff(ends) if len(ends) > 1 else ends


def _launch(prepared: PreparedTrial, body: str) -> Launch:
    request = prepared.request
    return Launch(
        body,
        request.model_dump(mode="json"),
        request.ranks,
        limits=Limits(timeout_s=request.timeout_s, silence_s=request.timeout_s),
        device=request.device,
        memory_limit_bytes=request.memory_limit_bytes,
        preload=(body.partition(":")[0], *(() if request.emulate else loaded_for(request.model))),
    )


def _free(costs: OperationCosts) -> OperationCosts:
    names = ("update_s", "sync_s", "latency_s", "seconds_per_byte")
    return dataclasses.replace(costs, **{name: np.zeros_like(getattr(costs, name)) for name in names})


def _memory(rank: RankResult) -> PeakMemory:
    memory = rank.memory
    return PeakMemory(memory["peak_bytes"], memory["baseline_bytes"], memory["reserved_bytes"])


def _spread(times_s: Sequence[float]) -> dict[str, float] | None:
    if not times_s:
        return None
    p10, median, p90 = np.percentile(times_s, [10, 50, 90]).tolist()
    return {"median": median, "p10": p10, "p90": p90}
