"""How near does the model come to the throughputs published for Piz Daint, and which links fit them?

    .venv/bin/python -P benchmarks/piz_daint.py          predicted beside published, with the shipped cluster
    .venv/bin/python -P benchmarks/piz_daint.py --fit    fit the cluster's coefficients anew

The fit minimises the squared logarithm of predicted over published throughput, damped beyond 10 % (soft L1),
over the compute factor, the p2p latency and inverse bandwidth, the all-reduce inverse bandwidth, and how much
longer an all-reduce takes where ranks stop for it: the eight Chimera rows with weight 1, those of DAPPLE and
GPipe with 0.15.
"""

import math
import statistics
import sys
from collections.abc import Sequence

import numpy as np

from profiles import library
from profiles.cluster import ClusterProfile
from profiles.measurement import Measurement
from tuner.replay import replay

WEIGHTS = {"chimera": 1.0, "dapple": 0.15, "gpipe": 0.15}
NAMES = ("compute factor", "p2p latency, s", "p2p, s/B", "all-reduce, s/B", "stopped, a doubling")
START = (1.3, 1e-3, 1e-9, 1.5e-10, 0.5)


def published(schedules: Sequence[str]) -> list[Measurement]:
    """The published rows of these schedules that have a throughput."""
    rows = library.load_measurements("chimera-sc21").measurements
    return [row for row in rows if row.throughput_samples_per_s and row.configuration.schedule in schedules]


def predicted(row: Measurement, cluster: ClusterProfile | None = None) -> float:
    """Samples per second by simulation."""
    return row.configuration.mini_batch_size / replay(row, library, cluster=cluster).simulated_s


def with_coefficients(coefficients: Sequence[float]) -> ClusterProfile:
    """The shipped cluster with other coefficients."""
    compute_factor, latency_s, p2p_s_per_byte, all_reduce_s_per_byte, stopped = coefficients
    cluster = library.load_cluster("piz-daint")
    p2p = {"latency_s": latency_s, "bandwidth_bytes_per_s": 1 / p2p_s_per_byte}
    collective = {"latency_s": 0.0, "bandwidth_bytes_per_s": 1 / all_reduce_s_per_byte}
    link = cluster.link.model_copy(
        update={
            "p2p": cluster.link.p2p.model_copy(update=p2p),
            "collective": cluster.link.collective.model_copy(update=collective),
        }
    )
    factors = {"compute_factor": compute_factor, "stopped_collective_factor": stopped}
    software = cluster.software.model_copy(update=factors)
    return cluster.model_copy(update={"link": link, "software": software})


def fit(rows: list[Measurement], steps: int = 20) -> np.ndarray:
    """Damped Gauss-Newton on the logarithms of the coefficients, reweighted for the soft L1 loss."""
    weights = np.array([WEIGHTS[row.configuration.schedule] for row in rows])
    at = np.log(START)
    for _ in range(steps):
        error = residuals(rows, at)
        slope = np.stack([(residuals(rows, at + bump) - error) / 1e-3 for bump in np.eye(len(at)) * 1e-3]).T
        scale = weights / (1 + (weights * error / 0.1) ** 2) ** 0.25
        left, right = slope * scale[:, None], -error * scale
        step = np.linalg.solve(left.T @ left + 1e-4 * np.eye(len(at)), left.T @ right)
        at = at + np.clip(step, -0.5, 0.5)
    return np.exp(at)


def residuals(rows: list[Measurement], logarithms: np.ndarray) -> np.ndarray:
    """Logarithm of predicted over published throughput."""
    cluster = with_coefficients(np.exp(logarithms))
    return np.array([math.log(predicted(row, cluster) / (row.throughput_samples_per_s or 1)) for row in rows])


def show(cluster: ClusterProfile | None = None) -> None:
    """Every synchronous row, and a summary for each schedule and model."""
    errors: dict[tuple[str, str], list[float]] = {}
    for row in published(("chimera", "dapple", "gpipe", "gems")):
        ran, measured = row.configuration, row.throughput_samples_per_s or 1
        error = predicted(row, cluster) / measured - 1
        errors.setdefault((str(row.model), ran.schedule), []).append(error)
        print(
            f"{row.model!s:8} {ran.schedule:8} W={ran.width:<3} D={ran.depth:<2} "
            f"B={ran.micro_batch_size:<2} {ran.recompute:5} published {measured:6.1f} "
            f"predicted {measured * (1 + error):6.1f} {error:+7.1%}"
        )
    for (model, schedule), values in errors.items():
        mean = statistics.mean(map(abs, values))
        print(
            f"{model:8} {schedule:8} {len(values):2} rows: mean error {mean:.1%}, "
            f"largest {max(map(abs, values)):.1%}, bias {statistics.mean(values):+.1%}"
        )


def main() -> None:
    """Print the comparison, after a fit if asked for one."""
    if "--fit" not in sys.argv[1:]:
        return show()
    found = fit(published(tuple(WEIGHTS)))
    for name, value in zip(NAMES, found, strict=True):
        print(f"{name:24} {value:.4g}")
    return show(with_coefficients(found))


if __name__ == "__main__":
    main()
