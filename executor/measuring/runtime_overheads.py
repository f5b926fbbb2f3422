"""What does the runtime take beside the layers and the links that are known? Found from short iterations.

Two ranks run schedules of several kinds at small and large numbers of micro-batches, in turn with profiles of
their layers. By how much iterations are longer than predicted is, as well as two numbers can tell it,

    (overhead of an operation) · ∂iteration/∂operation + (overhead of an iteration).

The first is work that a profile of single layers cannot see: the runtime's own steps, messages that are made
ready, and caches that the other operations of a stage have filled. The second is what happens once: data,
gradients that are cleared, ranks that wait for each other because none of them is always on time.
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
from profiles.cluster import ClusterProfile
from profiles.timings import Profile
from tuner.nonnegative import nonnegative_least_squares
from tuner.operation_costs import Floats, OperationCosts
from tuner.simulation import simulate

MODEL = "tiny-gpt"
DEPTH = 2
MICRO_BATCH_SIZE = 2


@dataclass(frozen=True)
class ShortRun:
    """What is run in every round."""

    schedule: str
    micro_batches: int
    stage_layers: tuple[int, ...]
    """Blocks of each stage, so that no profile cuts the model otherwise."""
    iterations: int


RUNS = (
    ShortRun("dapple", 4, (2, 2), 6),
    ShortRun("dapple", 32, (2, 2), 2),
    ShortRun("chimera", 4, (2, 2), 6),
    ShortRun("chimera", 16, (2, 2), 3),
    ShortRun("interleaved", 4, (1, 1, 1, 1), 6),
    ShortRun("zb_h1", 4, (2, 2), 6),
)
_STEP_S = 1e-4
"""Overhead of an operation by which it is seen how an iteration depends on it."""


@dataclass(frozen=True)
class OverheadPlan:
    """How long to measure: a round takes about four seconds."""

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

    Of the rounds that nothing disturbed, or of all where that is fewer than half. Raises TrialError if a rank
    failed.
    """
    bare = _with(cluster, operation_s=0.0, iteration_s=0.0)
    layers = Plan((MICRO_BATCH_SIZE,), budget_s=plan.budget_s)
    launch = Launch(
        BODY,
        {
            "requests": [_resolved(run, bare)[0].request.model_dump(mode="json") for run in RUNS],
            "plan": asdict(layers),
            "sizes": layers.micro_batch_sizes,
            "rounds": plan.rounds,
            "iterations": [run.iterations for run in RUNS],
            "timeout_s": plan.timeout_s,
        },
        DEPTH,
        limits=Limits(timeout_s=plan.timeout_s, silence_s=plan.timeout_s),
        preload=(BODY.partition(":")[0], *loaded_for(MODEL)),
    )
    with LoadMonitor() as monitor:
        results = results_of(launch, wanted="the runtime could not be measured")
    rounds = list(zip(*(result["rounds"] for result in results), strict=True))
    kept = list(monitor.judge([ranks[0]["span_s"] for ranks in rounds]).kept)
    slower = _with(cluster, operation_s=_STEP_S, iteration_s=0.0)
    found = np.array([_round(ranks, bare, slower) for ranks in rounds])  # [round, run, beyond, ∂, measured]
    undisturbed = float(np.mean(kept))
    return overheads_of(found if undisturbed < 0.5 else found[kept], undisturbed)


def notes_of(found: Overheads) -> list[str]:
    """What to know before the numbers are used."""
    if found.undisturbed >= QUIET_SHARE:
        return []
    told = f"{found.undisturbed:.0%} of the rounds ran undisturbed"
    return [f"the machine was not quiet while the runtime was measured: {told}; measure again"]


def with_overheads(cluster: ClusterProfile, found: Overheads) -> ClusterProfile:
    """The cluster whose software takes what was found, and says so."""
    changed = _with(cluster, operation_s=found.operation_s, iteration_s=found.iteration_s)
    told = (
        f"Overheads measured in {found.rounds} round(s) between two ranks of one machine: "
        f"{found.operation_s * 1e6:.0f} µs an operation (interquartile range "
        f"{found.operation_spread_s * 1e6:.0f} µs), {found.iteration_s * 1e3:.2f} ms an iteration."
    )
    source = " ".join([told, *notes_of(found), "Else:", cluster.software.source])[:2_000]
    return changed.model_copy(update={"software": changed.software.model_copy(update={"source": source})})


def overheads_of(found: Floats, undisturbed: float) -> Overheads:
    """The two that explain best what rounds have found [round, run, 3].

    Of each run: by how much it was longer than predicted, how its prediction depends on the overhead of an
    operation, and how long it was, all in seconds; errors count relative to the latter. Medians over the
    rounds; neither is less than nothing.
    """
    each = np.array([_fit(of_round)[0] for of_round in found])
    low, high = np.percentile(each, [25, 75]).tolist()
    operation_s, iteration_s = _fit(np.median(found, axis=0)).tolist()
    return Overheads(operation_s, iteration_s, high - low, len(found), undisturbed)


def _fit(found: Floats) -> Floats:
    beyond_s, slope, measured_s = found.T
    matrix = np.column_stack([slope, np.ones(len(slope))]) / measured_s[:, None]
    return nonnegative_least_squares(matrix, beyond_s / measured_s)


def _round(
    ranks: Sequence[Mapping[str, Any]], bare: ClusterProfile, slower: ClusterProfile
) -> list[tuple[float, float, float]]:
    """What the profile of a round and each of its runs say, see `overheads_of`."""
    profile = mean_profile([Profile.from_value(one["profile"]) for one in ranks])
    told = []
    for number, run in enumerate(RUNS):
        predicted_s, slower_s = (_predicted_s(run, cluster, profile) for cluster in (bare, slower))
        spans = np.array([one["spans"][number] for one in ranks])  # [rank, iteration, start and end]
        measured_s = float(np.median(spans[:, :, 1].max(axis=0) - spans[:, :, 0].min(axis=0)))
        told.append((measured_s - predicted_s, (slower_s - predicted_s) / _STEP_S, measured_s))
    return told


def _predicted_s(run: ShortRun, cluster: ClusterProfile, profile: Profile) -> float:
    prepared, costs = _resolved(run, cluster, profile)
    return float(simulate(prepared.program, costs).makespan_s)


def _resolved(
    run: ShortRun, cluster: ClusterProfile, profile: Profile | None = None
) -> tuple[PreparedTrial, OperationCosts]:
    asked = {
        "model": MODEL,
        "schedule": run.schedule,
        "depth": DEPTH,
        "micro_batch_size": MICRO_BATCH_SIZE,
        "micro_batches": run.micro_batches,
        "partition": run.stage_layers,
    }
    prepared, expected = resolve(read_trial(asked), cluster={"document": cluster}, profile=profile)
    if expected is None:
        raise TrialError(f"nothing is expected of {MODEL} in stages of {run.stage_layers}")
    return prepared, expected.costs


def _with(cluster: ClusterProfile, *, operation_s: float, iteration_s: float) -> ClusterProfile:
    changes = {"operation_overhead_s": operation_s, "iteration_overhead_s": iteration_s}
    return cluster.model_copy(update={"software": cluster.software.model_copy(update=changes)})
