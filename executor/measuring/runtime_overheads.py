"""What does the runtime take beside the layers and the links that are known? Found from short iterations.

Two ranks run 1F1B at two numbers of micro-batches N, in turn with profiles of its layers, and

    iteration = predicted + 2·(N + D − 1)·(overhead of an operation) + overhead of an iteration.

The first is work that a profile of single layers cannot see: the runtime's own steps, and caches that the
other operations of a stage have filled. The second is what happens once: data, gradients that are cleared,
ranks that wait for each other because none of them is always on time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from executor.errors import TrialError
from executor.launchers.launch import Launch
from executor.launchers.watchdog import Limits
from executor.measuring.launched import results_of
from executor.measuring.measured_cluster import QUIET_SHARE
from executor.measuring.neighbours import mean_profile
from executor.measuring.profiling import Plan
from executor.measuring.runtime_rounds import BODY
from executor.models.loading import loaded_for
from executor.trials.load import LoadMonitor
from executor.trials.prepared_trial import PreparedTrial
from executor.trials.resolution import resolve
from executor.trials.trial_request import read_trial
from profiles.cluster import ClusterProfile, Software
from profiles.timings import Profile
from tuner.operation_costs import Floats, OperationCosts
from tuner.simulation import simulate

MODEL = "tiny-gpt"
DEPTH = 2
MICRO_BATCH_SIZE = 2
STAGE_LAYERS = (2, 2)
MICRO_BATCHES = (4, 32)
ITERATIONS = (8, 3)
"""Of a round, for each N."""


@dataclass(frozen=True)
class OverheadPlan:
    """How long to measure: a round takes between one and two seconds."""

    rounds: int = 6
    budget_s: float = 0.1
    """To repeat a layer in a round."""
    timeout_s: float = 300.0


@dataclass(frozen=True)
class Overheads:
    """What was found, in seconds."""

    operation_s: float
    iteration_s: float
    operation_spread_s: float
    """Interquartile range over the rounds."""
    rounds: int
    undisturbed: float
    """Share of the rounds."""


def measure_overheads(cluster: ClusterProfile, plan: OverheadPlan) -> Overheads:
    """Beyond what the links of `cluster` take, between two ranks of this machine.

    Medians over the rounds that nothing disturbed, or over all where that is fewer than half. Raises
    TrialError if a rank failed.
    """
    bare = cluster.model_copy(
        update={"software": _with(cluster.software, operation_s=None, iteration_s=None)}
    )
    requests = [_resolved(count, bare)[0].request for count in MICRO_BATCHES]
    layers = Plan((MICRO_BATCH_SIZE,), budget_s=plan.budget_s)
    launch = Launch(
        BODY,
        {
            "requests": [request.model_dump(mode="json") for request in requests],
            "plan": asdict(layers),
            "sizes": layers.micro_batch_sizes,
            "rounds": plan.rounds,
            "iterations": ITERATIONS,
            "timeout_s": plan.timeout_s,
        },
        DEPTH,
        limits=Limits(timeout_s=plan.timeout_s, silence_s=plan.timeout_s),
        preload=(BODY.partition(":")[0], *loaded_for(MODEL)),
    )
    with LoadMonitor() as monitor:
        results = results_of(launch, wanted="the runtime could not be measured")
    rounds = list(zip(*(result["rounds"] for result in results), strict=True))
    kept = monitor.judge([ranks[0]["span_s"] for ranks in rounds]).kept
    beyond = np.array([[_beyond_s(ranks, number, bare) for number in range(2)] for ranks in rounds])
    undisturbed = float(np.mean(kept))
    return overheads_of(beyond if undisturbed < 0.5 else beyond[list(kept)], undisturbed)


def notes_of(found: Overheads) -> list[str]:
    """What to know before the numbers are used."""
    if found.undisturbed >= QUIET_SHARE:
        return []
    told = f"{found.undisturbed:.0%} of the rounds ran undisturbed"
    return [f"the machine was not quiet while the runtime was measured: {told}; measure again"]


def with_overheads(cluster: ClusterProfile, found: Overheads) -> ClusterProfile:
    """The cluster whose software takes what was found, and says so."""
    software = _with(cluster.software, operation_s=found.operation_s, iteration_s=found.iteration_s)
    told = (
        f"Overheads measured in {found.rounds} round(s) between two ranks of one machine: "
        f"{found.operation_s * 1e6:.0f} µs an operation (interquartile range "
        f"{found.operation_spread_s * 1e6:.0f} µs), {found.iteration_s * 1e3:.2f} ms an iteration."
    )
    source = " ".join([told, *notes_of(found), "Else:", software.source])[:2_000]
    return cluster.model_copy(update={"software": software.model_copy(update={"source": source})})


def _resolved(
    micro_batches: int, cluster: ClusterProfile, profile: Profile | None = None
) -> tuple[PreparedTrial, OperationCosts]:
    asked = {
        "model": MODEL,
        "schedule": "dapple",
        "depth": DEPTH,
        "micro_batch_size": MICRO_BATCH_SIZE,
        "micro_batches": micro_batches,
        "partition": STAGE_LAYERS,
    }
    prepared, expected = resolve(read_trial(asked), cluster={"document": cluster}, profile=profile)
    if expected is None:
        raise TrialError(f"nothing is expected of {MODEL} in stages of {STAGE_LAYERS}")
    return prepared, expected.costs


def _beyond_s(ranks: Sequence[Mapping[str, Any]], number: int, cluster: ClusterProfile) -> float:
    """By how much the median iteration of a round is longer than its own profile predicts."""
    profile = mean_profile([Profile.from_value(one["profile"]) for one in ranks])
    prepared, costs = _resolved(MICRO_BATCHES[number], cluster, profile)
    spans = np.array([one["spans"][number] for one in ranks])  # [rank, iteration, start and end]
    lasted_s = spans[:, :, 1].max(axis=0) - spans[:, :, 0].min(axis=0)
    return float(np.median(lasted_s)) - float(simulate(prepared.program, costs).makespan_s)


def overheads_of(beyond_s: Floats, undisturbed: float) -> Overheads:
    """Of what rounds took beyond their prediction [round, N]; neither is less than nothing."""
    few, many = MICRO_BATCHES
    each = (beyond_s[:, 1] - beyond_s[:, 0]) / (2 * (many - few))
    low, operation_s, high = np.percentile(each, [25, 50, 75]).tolist()
    operation_s = max(0.0, operation_s)
    once = beyond_s[:, 0] - 2 * (few + DEPTH - 1) * operation_s
    return Overheads(operation_s, max(0.0, float(np.median(once))), high - low, len(beyond_s), undisturbed)


def _with(software: Software, *, operation_s: float | None, iteration_s: float | None) -> Software:
    changes = {"operation_overhead_s": operation_s, "iteration_overhead_s": iteration_s}
    return software.model_copy(update=changes)
