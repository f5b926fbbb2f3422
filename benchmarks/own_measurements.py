"""How near do predictions come to runs on this machine, and how good a configuration do they choose?

    .venv/bin/python -P benchmarks/own_measurements.py [--only real|emulated] [--rows PATTERN]

Links are measured, alone and beside computation, and what a run adds to layers, operations and iterations, as
`chimera links` does; layers of two models are profiled by as many processes at once as there will be ranks,
just before they are run. Every synchronous schedule is run at D = 2 on real layers, and at D = 4, 8 and 16 on
stages that sleep. Beside each prediction stands the median of the iterations that nothing disturbed, by the
rule of `executor.trials`: where fewer than 60 % are left, the machine was not quiet and the row does not
count. A run waits for a quiet moment, and is tried twice. The last lines are the mean error, and by how much
the configuration of least predicted time is slower than the fastest of those with one mini-batch. Limits: 6 %
and 3 %. With --rows only configurations are run whose names match the regular expression, such as "tiny" or
"chimera|dualpipe".
"""

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from executor.launchers.outcome import Status
from executor.measuring.links import LinkPlan, measure_links
from executor.measuring.measured_cluster import cluster_of, notes_of
from executor.measuring.neighbours import Crowd, take_crowded_profile
from executor.measuring.profiling import Plan
from executor.measuring.runtime_overheads import OverheadPlan, measure_overheads, with_overheads
from executor.trials.load import wait_until_quiet
from executor.trials.prepared_trial import prepare
from executor.trials.resolution import resolve
from executor.trials.trial import Trial, run_trial
from executor.trials.trial_request import read_trial
from profiles.cluster import ClusterProfile, Overlap
from profiles.timings import Profile
from tuner.errors import TunerError
from tuner.schedules import SCHEMES

MID: dict[str, Any] = {
    "config": {
        "model_type": "gpt2", "vocab_size": 1024, "n_positions": 128, "n_embd": 256, "n_layer": 4,
        "n_head": 4, "activation_function": "gelu_new", "resid_pdrop": 0.0, "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "layer_norm_epsilon": 1e-5, "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0,
    }
}  # fmt: skip
TINY = "tiny-gpt"
LENGTHS = {"mid": 128, "tiny": 64}
MINI_BATCH = 8
SCHEDULES = tuple(name for name, scheme in SCHEMES.items() if scheme.synchronous)
EMULATED = {"forward_s": 0.02, "backward_s": 0.04}
MOST_ERROR, MOST_REGRET, LEAST_CONFIGURATIONS = 0.06, 0.03, 24
ROWS = re.compile(sys.argv[sys.argv.index("--rows") + 1] if "--rows" in sys.argv else "")
QUIET_WAIT_S = 20.0
RUN_S = 2.0
"""So long the timed iterations of a run should take, by the prediction."""


@dataclass(frozen=True)
class Row:
    """One configuration, predicted and run."""

    name: str
    predicted_s: float
    measured_s: float | None
    """None where the machine was not quiet."""
    kept: str
    load: float
    """Load average of the last minute."""
    chosen_among: bool = False
    """Whether it has the mini-batch among whose configurations one is chosen."""

    @property
    def error(self) -> float | None:
        """Predicted over measured, minus 1."""
        return None if self.measured_s is None else self.predicted_s / self.measured_s - 1

    def __str__(self) -> str:
        measured = "not quiet" if self.measured_s is None else f"{self.measured_s * 1e3:9.2f}"
        error = "" if self.error is None else f"{self.error:+7.1%}"
        return (
            f"{self.name:50} {self.predicted_s * 1e3:9.2f} {measured:>9} {error:>7} {self.kept:>7} "
            f"{self.load:5.2f}"
        )


def run_quietly(
    prepared: Any, costs: Any, *, name: str, chosen_among: bool = False, tries: int = 2
) -> Row | None:
    """The row of a trial, tried until nothing disturbed it; None where it did not end well."""
    trial: Trial | None = None
    for _ in range(tries):
        wait_until_quiet(QUIET_WAIT_S)
        trial = run_trial(prepared, costs=costs)
        if trial.status != Status.OK:
            print(f"{name}: {trial.outcome.failure.message if trial.outcome.failure else trial.status}")
            return None
        if trial.quiet:
            break
    told = trial.document() if trial else {}
    median = told["measured_iteration_s"]["median"]
    return Row(
        name,
        told["predicted_iteration_s"],
        median if told["machine_quiet"] else None,
        f"{told['iterations_kept']}/{len(told['iterations_s'])}",
        os.getloadavg()[0],
        chosen_among,
    )


def crowded_profiles(model: str, size: int) -> dict[int, Profile]:
    """Profiles at one micro-batch size by the number of processes that compute."""
    taken = {}
    for processes in (1, 2):
        wait_until_quiet(QUIET_WAIT_S)
        source, length = TINY if model == "tiny" else MID, LENGTHS[model]
        crowd = Crowd(source, processes, sequence_length=length, precision="float32", attention="flash")
        taken[processes] = take_crowded_profile(crowd, Plan((size,), budget_s=0.8))
        notes = "; ".join(taken[processes].timings.notes) or "quiet"
        print(f"profile of {model}, B={size}, by {processes}: {notes}", flush=True)
    return taken


def measured_cluster() -> ClusterProfile:
    """The links of this machine."""
    wait_until_quiet(QUIET_WAIT_S)
    measured = measure_links(LinkPlan(budget_s=0.2))
    if measured is None:
        raise SystemExit("do not start this under torchrun")
    cluster = cluster_of(measured, name="own", devices=64)
    link = cluster.link
    print(
        f"links: {link.p2p.latency_s * 1e6:.0f} µs and {link.p2p.bandwidth_bytes_per_s / 1e9:.2f} GB/s, "
        f"collectives {link.collective.latency_s * 1e6:.0f} µs and "
        f"{link.collective.bandwidth_bytes_per_s / 1e9:.2f} GB/s; {'; '.join(notes_of(measured)) or 'quiet'}"
    )
    if link.overlap is not None:
        print(f"beside computation: {describe(link.overlap)}")
    return cluster


def describe(overlap: Overlap) -> str:
    """In the words of the links alone."""
    p2p, collective = (
        f"{link.latency_s * 1e6:.0f} µs and {link.bandwidth_bytes_per_s / 1e9:.2f} GB/s"
        for link in (overlap.p2p, overlap.collective)
    )
    return (
        f"{p2p}, collectives {collective}; it takes {overlap.slow_down:.0%} longer beside these, and "
        f"{overlap.occupancy_s * 1e6:.0f} µs at each end of a message"
    )


def real_run(model: str, profile: Profile, cluster: ClusterProfile, **options: Any) -> tuple[Any, Any]:
    """A trial of real layers and the costs that are expected."""
    asked = {"model": TINY if model == "tiny" else MID, "sequence_length": LENGTHS[model], **options}
    prepared, expected = resolve(read_trial(asked), cluster={"document": cluster}, profile=profile)
    if expected is None:
        raise SystemExit(f"nothing is expected of {options}")
    return prepared, expected.costs


def with_runtime(cluster: ClusterProfile) -> ClusterProfile:
    """What the runtime adds to an operation and an iteration, as `chimera links` finds it."""
    wait_until_quiet(QUIET_WAIT_S)
    found = measure_overheads(cluster, OverheadPlan())
    print(
        f"runtime: layers take {found.compute_factor:.3f} of their time, an operation "
        f"{found.operation_s * 1e6:.0f} µs more (spread {found.operation_spread_s * 1e6:.0f}), an iteration "
        f"{found.iteration_s * 1e3:.2f} ms; {found.undisturbed:.0%} of the rounds undisturbed",
        flush=True,
    )
    return with_overheads(cluster, found)


def configurations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Of the mid-size model, all with one mini-batch; then some of tiny-gpt."""
    for size in (1, 2, 4):
        for recompute in ("none", "layer"):
            for width, depth in ((1, 1), (2, 1)):
                yield "mid", _layout("dapple", width, depth, size=size, recompute=recompute)
        for schedule in SCHEDULES:
            yield "mid", _layout(schedule, 1, 2, size=size)
        yield "mid", _layout("dapple", 1, 2, size=size, recompute="stage")
    for schedule in SCHEDULES:
        yield "tiny", _layout(schedule, 1, 2, size=2)


def _layout(schedule: str, width: int, depth: int, *, size: int, recompute: str = "none") -> dict[str, Any]:
    shape = {"schedule": schedule, "width": width, "depth": depth, "recompute": recompute}
    return shape | {"micro_batch_size": size, "micro_batches": MINI_BATCH // width // size}


def real_rows() -> Iterator[Row]:
    """Real layers at W·D of 1 and 2, profiled just before they are run."""
    cluster = with_runtime(measured_cluster())
    for (model, size), rows in groupby(
        configurations(), key=lambda row: (row[0], row[1]["micro_batch_size"])
    ):
        layouts = {
            f"{model} {' '.join(str(value) for value in layout.values())}": layout for _, layout in rows
        }
        wanted = {name: layout for name, layout in layouts.items() if ROWS.search(name)}
        profiles = crowded_profiles(model, size) if wanted else {}
        for name, layout in wanted.items():
            profile = profiles[layout["width"] * layout["depth"]]
            row = real_row(name, model, layout, profile=profile, cluster=cluster)
            if row is not None:
                yield row


def real_row(
    name: str, model: str, layout: dict[str, Any], *, profile: Profile, cluster: ClusterProfile
) -> Row | None:
    """One of them; None where it cannot be, or did not end well."""
    try:
        _, costs = real_run(model, profile, cluster, **layout)
        guess_s = MINI_BATCH * float((costs.forward_s + costs.backward_s).sum())
        iterations = int(np.clip(RUN_S / guess_s, 6, 60))
        prepared, costs = real_run(model, profile, cluster, **layout, iterations=iterations)
    except TunerError as error:
        print(f"{name}: left out, {error}")
        return None
    return run_quietly(prepared, costs, name=name, chosen_among=model == "mid")


def emulated_rows() -> Iterator[Row]:
    """Sleeping stages; an operation and a message take what they do on one and two ranks."""
    hop_s = measured_cluster().link.p2p.latency_s
    alone = read_trial(
        {"schedule": "dapple", "depth": 1, "micro_batches": 16, "emulate": EMULATED, "iterations": 3}
    )
    row = run_quietly(prepare(alone), None, name="emulated overhead")
    each_s = 0.0 if row is None or row.measured_s is None else (row.measured_s - row.predicted_s) / 32
    print(f"emulated: {each_s * 1e6:.0f} µs an operation, {hop_s * 1e6:.0f} µs a hop")
    for depth in (4, 8, 16):
        for schedule in SCHEDULES:
            count = max(depth, SCHEMES[schedule].smallest_micro_batches(depth))
            asked = {
                "schedule": schedule, "depth": depth, "micro_batches": count, "warm_up": 1,
                "iterations": 5 if depth < 16 else 3, "emulate": EMULATED | {"hop_s": hop_s},
            }  # fmt: skip
            name = f"emulated {schedule} D={depth} N={count}"
            prepared = prepare(read_trial(asked))
            costs = prepared.costs
            if costs is None or not ROWS.search(name):
                continue
            costs = replace(costs, forward_s=costs.forward_s + each_s, backward_s=costs.backward_s + each_s)
            if (found := run_quietly(prepared, costs, name=name)) is not None:
                yield found


def show(rows: Sequence[Row], *, kind: str) -> None:
    """Mean error, and regret where there are configurations to choose from."""
    errors = [abs(row.error) for row in rows if row.error is not None]
    if not errors:
        print(f"{kind}: machine not quiet, no row counts")
        return
    verdict = "within" if np.mean(errors) <= MOST_ERROR else "beyond"
    print(
        f"{kind}: mean error {np.mean(errors):.1%} ({verdict} {MOST_ERROR:.0%}), largest {max(errors):.1%}, "
        f"{len(errors)} of {len(rows)} rows count"
    )
    counted = [row for row in rows if row.chosen_among and row.measured_s is not None]
    if len(counted) < LEAST_CONFIGURATIONS:
        if kind == "real":
            print(f"regret: machine not quiet, {len(counted)} configurations of {LEAST_CONFIGURATIONS} count")
        return
    best = min(counted, key=lambda row: row.measured_s or np.inf)
    chosen = min(counted, key=lambda row: row.predicted_s)
    regret = (chosen.measured_s or np.inf) / (best.measured_s or np.inf) - 1
    print(
        f"regret {regret:.1%} (limit {MOST_REGRET:.0%}) among {len(counted)}: chosen {chosen.name}, fastest "
        f"{best.name}"
    )


def main() -> None:
    """Print rows as they come, then the summary."""
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else None
    start = time.monotonic()
    for kind, source in (("real", real_rows), ("emulated", emulated_rows)):
        if only in {None, kind}:
            print(f"{kind:50} {'predicted':>9} {'measured':>9} {'error':>7} {'kept':>7} {'load':>5}")
            rows = []
            for row in source():
                print(row, flush=True)
                rows.append(row)
            show(rows, kind=kind)
    print(f"{time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
