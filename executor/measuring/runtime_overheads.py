"""What does the runtime take beside the layers and the links that are known? Found from short iterations.

Two ranks run schedules of several kinds on two small models, in turn with profiles of their layers. As well
as three numbers of a cluster's software can tell it, an iteration takes

    compute_factor · layers + operation_overhead_s · operations + iteration_overhead_s + communication.

The factor is what layers take longer in a run than by themselves: medians add up to less than the median of
a sum, and optimizers find nothing in the caches. The overhead of an operation is work that a profile cannot
see: the runtime's own steps, messages that are made ready, code that other operations have driven out. What
happens once is data, gradients that are cleared, and ranks that wait since none of them is always on time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

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
from executor.trials.resolution import expected_of, resolve
from executor.trials.trial_request import read_trial
from profiles.cluster import ClusterProfile
from profiles.timings import Profile
from tuner.nonnegative import nonnegative_least_squares
from tuner.operation_costs import Floats
from tuner.simulation import simulate

DEPTH = 2
MICRO_BATCH_SIZE = 2


@dataclass(frozen=True)
class ShortRun:
    """What is run in every round."""

    schedule: str
    micro_batches: int
    stage_layers: tuple[int, ...]
    """Blocks of each stage, evenly, so that no profile cuts the model otherwise."""
    iterations: int


@dataclass(frozen=True)
class Subject:
    """A model and its runs."""

    model: Any
    sequence_length: int
    runs: tuple[ShortRun, ...]


SUBJECTS = (
    Subject(
        "tiny-gpt",
        64,
        (
            ShortRun("dapple", 4, (2, 2), 6),
            ShortRun("dapple", 32, (2, 2), 2),
            ShortRun("chimera", 4, (2, 2), 6),
            ShortRun("chimera", 16, (2, 2), 3),
            ShortRun("interleaved", 4, (1, 1, 1, 1), 6),
            ShortRun("zb_h1", 4, (2, 2), 6),
        ),
    ),
    Subject(
        {"config": {"model_type": "gpt2", "n_layer": 2, "n_embd": 256, "n_head": 4, "vocab_size": 1024}},
        128,
        (ShortRun("dapple", 4, (1, 1), 3), ShortRun("chimera", 4, (1, 1), 3)),
    ),
)
"""Layers of about a millisecond and of about ten: the first tell overheads, the others the factor."""
_STEPS = {"compute_factor": 0.01, "operation_overhead_s": 1e-4}
"""By which it is seen how an iteration depends on each; its own overhead is there once."""


@dataclass(frozen=True)
class OverheadPlan:
    """How long to measure: a round takes some six seconds."""

    rounds: int = 5
    budget_s: float = 0.1
    """To repeat a layer in a round."""
    timeout_s: float = 300.0


@dataclass(frozen=True)
class Overheads:
    """What was found; times in seconds."""

    compute_factor: float
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
    bare = _with(cluster, compute_factor=1.0, operation_overhead_s=0.0, iteration_overhead_s=0.0)
    prepared = [[_prepared(subject, run, bare) for run in subject.runs] for subject in SUBJECTS]
    subjects = [
        {
            "requests": [one.request.model_dump(mode="json") for one in runs],
            "iterations": [run.iterations for run in subject.runs],
        }
        for subject, runs in zip(SUBJECTS, prepared, strict=True)
    ]
    layers = asdict(Plan((MICRO_BATCH_SIZE,), budget_s=plan.budget_s))
    launch = Launch(
        BODY,
        {"subjects": subjects, "plan": layers, "rounds": plan.rounds, "timeout_s": plan.timeout_s},
        DEPTH,
        limits=Limits(timeout_s=plan.timeout_s, silence_s=plan.timeout_s),
        preload=(BODY.partition(":")[0], *loaded_for("")),
    )
    with LoadMonitor() as monitor:
        results = results_of(launch, wanted="the runtime could not be measured")
    kept = list(monitor.judge([tuple(span) for span in results[0]["spans"]]).kept)
    rounds = zip(*(one["rounds"] for one in results), strict=True)
    found = np.array([_round(ranks, prepared, bare) for ranks in rounds])
    undisturbed = float(np.mean(kept))
    return overheads_of(found if undisturbed < 0.5 else found[kept], undisturbed)


def overheads_of(found: Floats, undisturbed: float) -> Overheads:
    """The three that explain best what rounds have found [round, run, 4].

    Of each run, in seconds: how long it was and how long by prediction, and how the latter depends on the
    compute factor and on the overhead of an operation. Errors count relative to the first; medians are taken
    over the rounds; nothing is less than 0.
    """
    each = np.array([_fit(of_round)[1] for of_round in found])
    low, high = np.percentile(each, [25, 75]).tolist()
    factor, operation_s, iteration_s = _fit(np.median(found, axis=0)).tolist()
    return Overheads(factor, operation_s, iteration_s, high - low, len(found), undisturbed)


def notes_of(found: Overheads) -> list[str]:
    """What to know before the numbers are used."""
    if found.undisturbed >= QUIET_SHARE:
        return []
    told = f"{found.undisturbed:.0%} of the rounds ran undisturbed"
    return [f"the machine was not quiet while the runtime was measured: {told}; measure again"]


def with_overheads(cluster: ClusterProfile, found: Overheads) -> ClusterProfile:
    """The cluster whose software takes what was found, and says so."""
    told = (
        f"Runtime measured in {found.rounds} round(s) between two ranks of one machine: layers take "
        f"{found.compute_factor:.3f} of their time, an operation {found.operation_s * 1e6:.0f} µs more "
        f"(interquartile range {found.operation_spread_s * 1e6:.0f} µs), an iteration "
        f"{found.iteration_s * 1e3:.2f} ms."
    )
    return _with(
        cluster,
        compute_factor=found.compute_factor,
        operation_overhead_s=found.operation_s,
        iteration_overhead_s=found.iteration_s,
        source=" ".join([told, *notes_of(found), "Else:", cluster.software.source])[:2_000],
    )


def _fit(found: Floats) -> Floats:
    measured_s, predicted_s, of_layers_s, operations = found.T
    matrix = np.column_stack([of_layers_s, operations, np.ones(len(found))])
    target = measured_s - predicted_s + of_layers_s  # what a factor of 1 already has
    return nonnegative_least_squares(matrix / measured_s[:, None], target / measured_s)


def _round(
    ranks: Sequence[Sequence[Mapping[str, Any]]],
    prepared: Sequence[Sequence[PreparedTrial]],
    bare: ClusterProfile,
) -> list[list[float]]:
    """What the profiles of a round and its runs say, see `overheads_of`."""
    changed = [_with(bare, **{name: getattr(bare.software, name) + step}) for name, step in _STEPS.items()]
    told = []
    for number, runs in enumerate(prepared):
        profile = mean_profile([Profile.from_value(one[number]["profile"]) for one in ranks])
        for place, run in enumerate(runs):
            spans = np.array([one[number]["spans"][place] for one in ranks])  # [rank, iteration, 2]
            measured_s = float(np.median(spans[:, :, 1].max(axis=0) - spans[:, :, 0].min(axis=0)))
            predicted_s, *others = (_predicted_s(run, cluster, profile) for cluster in (bare, *changed))
            slopes = [
                (other - predicted_s) / step for other, step in zip(others, _STEPS.values(), strict=True)
            ]
            told.append([measured_s, predicted_s, *slopes])
    return told


def _predicted_s(run: PreparedTrial, cluster: ClusterProfile, profile: Profile) -> float:
    costs = expected_of(run.request, cluster={"document": cluster}, profile=profile).costs
    return float(simulate(run.program, costs).makespan_s)


def _prepared(subject: Subject, run: ShortRun, cluster: ClusterProfile) -> PreparedTrial:
    asked = {
        "model": subject.model,
        "sequence_length": subject.sequence_length,
        "schedule": run.schedule,
        "depth": DEPTH,
        "micro_batch_size": MICRO_BATCH_SIZE,
        "micro_batches": run.micro_batches,
        "partition": run.stage_layers,
    }
    return resolve(read_trial(asked), cluster={"document": cluster})[0]


def _with(cluster: ClusterProfile, **changes: Any) -> ClusterProfile:
    return cluster.model_copy(update={"software": cluster.software.model_copy(update=changes)})
