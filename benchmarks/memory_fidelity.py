"""How near does the memory model come to the peaks published for Piz Daint, and what fits them?

    .venv/bin/python -P benchmarks/memory_fidelity.py          predicted beside measured, row by row
    .venv/bin/python -P benchmarks/memory_fidelity.py --fit    fit the cluster's four memory coefficients anew

Four coefficients are fitted: the bytes of the framework, for each of the two model families the bytes kept
over the saved tensors that are counted, and the copies of their weights that schedules without a flush keep
beyond their versions. Residuals are logarithms of predicted over measured maximum; one that is too low counts
UNDER times, which is the upward bias. Rows without a figure count where the decision at 16.0 GB is wrong:
what ran must fit, what ran out of memory must not, nor what was recomputed (the paper did so only where it
had to) without that. The maximum of the ranks is all that is fitted; the minimum is shown.
"""

import math
import sys
from collections.abc import Iterable, Sequence

import numpy as np

from profiles import library
from profiles.cluster import ClusterProfile
from profiles.measurement import Measurement
from tuner.memory_score import ComparedMemory, compare_memory, measured_peak_bytes, score_memory

CAPACITY_BYTES = 16.0e9
UNDER = 4.0
"""Weight of a maximum that is predicted too low against one that is as much too high."""
DECISION = 10.0
"""Weight of a wrong decision."""
CLEAR = 1.002
"""How far on its own side of the capacity a decision should be, as rounding must not decide."""
NEAR = 1.15
"""Decisions on what is within this factor of the capacity at the start count in the fit."""
NOT_FITTED = {("gpt2-64", "pipedream_2bw", 4, 1)}
"""Ran out of memory though no coefficients that agree with the other rows ask for more than 15 GB."""
START = (0.45, 1.4, 1.33, 1.7)
NAMES = ("framework, GB", "activations of bert", "activations of gpt2", "asynchronous weight copies")


def published() -> list[Measurement]:
    """Every row of the paper on Piz Daint."""
    return list(library.load_measurements("chimera-sc21").measurements)


def without_recomputation(rows: Sequence[Measurement]) -> list[Measurement]:
    """What the recomputed rows would have been without: out of memory, else they would have run so."""
    implied = []
    for row in rows:
        if row.configuration.recompute == "none" or row.status != "ok":
            continue
        ran = row.configuration.model_copy(update={"recompute": "none"})
        nothing = {"throughput_samples_per_s": None, "iteration_s": None}
        implied.append(row.model_copy(update={"configuration": ran, "status": "out_of_memory", **nothing}))
    return implied


def telling(rows: Sequence[Measurement]) -> list[Measurement]:
    """The rows that can move the fit: with a figure, or whose decision is near."""
    near = (1 / NEAR * CAPACITY_BYTES, NEAR * CAPACITY_BYTES)
    cluster = with_coefficients(START)
    return [
        row
        for row in rows
        if _key(row) not in NOT_FITTED
        and (
            row.peak_memory_gb
            or near[0] < max(compare_memory(row, library, cluster=cluster).predicted.rank_bytes) < near[1]
        )
    ]


def _key(row: Measurement) -> tuple[str, str, int, int]:
    ran = row.configuration
    return str(row.model), ran.schedule, ran.depth, ran.micro_batch_size


def with_coefficients(coefficients: Iterable[float]) -> ClusterProfile:
    """The shipped cluster with other coefficients, in the order of NAMES."""
    framework_gb, bert, gpt2, copies = coefficients
    cluster = library.load_cluster("piz-daint")
    software = cluster.software.model_copy(
        update={
            "framework_bytes": round(framework_gb * 1e9),
            "activation_factors": {"bert": bert, "gpt2": gpt2},
            "asynchronous_weight_copies": copies,
        }
    )
    return cluster.model_copy(update={"software": software})


def fit(rows: Sequence[Measurement], steps: int = 25) -> np.ndarray:
    """Damped Gauss-Newton on the logarithms of the coefficients, reweighted for the asymmetric loss."""
    at = np.log(START)
    for _ in range(steps):
        error = residuals(rows, at)
        slope = np.stack([(residuals(rows, at + bump) - error) / 1e-3 for bump in np.eye(len(at)) * 1e-3]).T
        step = np.linalg.solve(slope.T @ slope + 1e-4 * np.eye(len(at)), -slope.T @ error)
        at = at + np.clip(step, -0.2, 0.2)
    return np.exp(at)


def residuals(rows: Sequence[Measurement], logarithms: np.ndarray) -> np.ndarray:
    """Weighted residual of every row."""
    cluster = with_coefficients(np.exp(logarithms))
    return np.array([residual(compare_memory(row, library, cluster=cluster)) for row in rows])


def residual(row: ComparedMemory) -> float:
    """Logarithm of predicted over measured maximum, or how far the decision is wrong."""
    needed, measured = max(row.predicted.rank_bytes), measured_peak_bytes(row.measurement)
    if measured is not None:
        error = math.log(needed / measured)
        return error * math.sqrt(UNDER) if error < 0 else error
    over = math.log(needed / CAPACITY_BYTES)
    wrong = over if row.measurement.status == "ok" else -over
    return DECISION * max(0.0, wrong + math.log(CLEAR))


def show(cluster: ClusterProfile | None = None) -> None:
    """Every row with a memory figure or without room, then the scores and each wrong decision."""
    rows = [
        compare_memory(row, library, cluster=cluster, capacity_bytes=CAPACITY_BYTES) for row in published()
    ]
    for row in rows:
        if row.max_error is not None or row.measurement.status != "ok":
            print(line(row))
    figure = score_memory(row for row in rows if row.measurement.where == "fig. 9")
    everything = score_memory(rows)
    print(
        f"figure 9: maximum {figure.memory_mape:.1%} off on average, bias {figure.memory_bias:+.1%}; "
        f"minimum {figure.min_mape:.1%} off; decisions at 16.0 GB agree in {figure.oom_agreement:.1%}"
    )
    print(f"all {len(rows)} rows: decisions agree in {everything.oom_agreement:.1%}")
    for row in rows:
        if row.verdict != "agrees":
            print(f"{row.verdict}: {line(row)}")


def line(row: ComparedMemory) -> str:
    """One row: predicted and measured maximum and minimum, and what the fullest rank is full of."""
    ran, predicted, peak = row.measurement.configuration, row.predicted, row.measurement.peak_memory_gb
    fullest, emptiest = predicted.fullest_rank, predicted.emptiest_rank
    parts = sorted(predicted.part_bytes.items(), key=lambda part: -part[1][fullest])[:2]
    largest = ", ".join(f"{name.removesuffix('_bytes')} {size[fullest] / 1e9:.2f}" for name, size in parts)
    most = f"max {max(predicted.rank_bytes) / 1e9:6.2f}@{fullest:<2}"
    least = f"min {min(predicted.rank_bytes) / 1e9:6.2f}@{emptiest:<2}"
    if peak is not None and row.max_error is not None and row.min_error is not None:
        most += f" of {peak.max:5.2f} {row.max_error:+6.1%}"
        least += f" of {peak.min:5.2f} {row.min_error:+6.1%}"
    return (
        f"{row.measurement.model!s:8} {ran.schedule:14} W={ran.width:<3} D={ran.depth:<2} "
        f"B={ran.micro_batch_size:<2} {row.measurement.status:13} {most:28} {least:28} {largest}"
    )


def main() -> None:
    """Print the comparison, after a fit if asked for one."""
    if "--fit" not in sys.argv[1:]:
        return show()
    rows = published()
    found = fit(telling([*rows, *without_recomputation(rows)]))
    for name, value in zip(NAMES, found, strict=True):
        print(f"{name:28} {value:.4g}")
    return show(with_coefficients(found))


if __name__ == "__main__":
    main()
