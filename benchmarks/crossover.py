"""What do jobs gain that take turns on the same ranks, and does the simulation of the merged programs know?

    .venv/bin/python -P benchmarks/crossover.py [ITERATIONS]

Stages sleep; each job runs alone, and then all in turns. Speed-up is an iteration of each alone over the
period in turns. Limits: two equal jobs at least 0.95 of min(1/(1 − φ), 2); the period within 5 % of the
simulation; no computation of two jobs on a rank at once.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from executor.crossover.crossover import CrossoverRun, run_crossover
from executor.launchers.outcome import Status
from executor.running.programs import lowered
from executor.trials.load import wait_until_quiet
from executor.trials.prepared_trial import PreparedTrial, prepare
from executor.trials.trial import periods
from executor.trials.trial_request import TrialRequest, read_trial
from tuner.schedules.generators import program_of
from tuner.schedules.merging import merge, merge_costs
from tuner.simulation import simulate

COMPUTE_S = 0.06
SIMULATED, LEFT_OUT = 9, 3
QUIET_WITHIN_S = 60.0
ERROR_LIMIT, SPEED_UP_LIMIT = 0.05, 0.95


class Job(NamedTuple):
    """Seconds of an iteration that are computed, and the share of it that waits for gradients."""

    compute_s: float
    share: float
    schedule: str = "dapple"
    width: int = 2
    depth: int = 1
    micro_batches: int = 1

    def request(self, iterations: int) -> TrialRequest:
        """Backwards take twice a forward; a rank of a pipeline has bubbles beside `compute_s`."""
        forward_s = self.compute_s / 3 / self.micro_batches
        asked: dict[str, Any] = {
            "schedule": self.schedule,
            "width": self.width,
            "depth": self.depth,
            "micro_batches": self.micro_batches,
            "iterations": iterations,
            "emulate": {
                "forward_s": forward_s,
                "backward_s": 2 * forward_s,
                "all_reduce_s": self.compute_s * self.share / (1 - self.share),
            },
        }
        return read_trial(asked)


CASES = {
    "two equal, 1/6": [Job(COMPUTE_S, 1 / 6)] * 2,
    "two equal, 1/3": [Job(COMPUTE_S, 1 / 3)] * 2,
    "two equal, 2/3": [Job(COMPUTE_S, 2 / 3)] * 2,
    "unequal": [Job(COMPUTE_S, 1 / 6), Job(2 * COMPUTE_S, 1 / 3)],
    "unequal, one silent": [Job(COMPUTE_S, 0.0), Job(COMPUTE_S / 2, 2 / 3)],
    "three equal, 1/3": [Job(COMPUTE_S, 1 / 3)] * 3,
    "three unequal": [Job(COMPUTE_S, 1 / 6), Job(COMPUTE_S / 2, 1 / 2), Job(2 * COMPUTE_S, 1 / 3)],
    "pipelines of 2": [Job(0.24, 1 / 3, "chimera", 1, 2, 2), Job(0.12, 0.0, "dapple", 1, 2, 2)],
}


def main() -> int:
    """Print the table; 1 if a limit is broken."""
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    print(f"{'':22}{'alone ms':>18}{'period':>9}{'simulated':>11}{'error':>8}{'speed-up':>10}{'bound':>8}")
    good = True
    for name, jobs in CASES.items():
        wait_until_quiet(QUIET_WITHIN_S)
        requests = [job.request(iterations) for job in jobs]
        run = run_crossover(requests)
        if set(run.statuses) != {Status.OK} or run.period_s is None or run.measured_speedup is None:
            raise SystemExit(f"{name} did not end well: {run.document()}")
        good &= print_row(name, jobs, run, simulated_s=predict([prepare(request) for request in requests]))
    return 0 if good else 1


def predict(jobs: list[PreparedTrial]) -> float:
    """Seconds of a period of the merged programs, in steady state."""
    programs, costs = [], []
    for job in jobs:
        one = program_of(job.configuration, iterations=SIMULATED)
        policy = job.request.sync_policy
        programs.append(lowered(one, policy=policy, buckets=1, sharded=False, tied=(), ordered=False))
        if job.costs is None:
            raise SystemExit("a job has no costs")
        costs.append(job.costs)
    timeline = simulate(merge(programs), merge_costs(programs, costs))
    return float(np.mean(periods(timeline)[LEFT_OUT:-1]))


def print_row(name: str, jobs: list[Job], run: CrossoverRun, *, simulated_s: float) -> bool:
    """Whether the row is within its limits."""
    period_s, speed_up = run.period_s or 0.0, run.measured_speedup or 0.0
    error = simulated_s / period_s - 1
    good = abs(error) <= ERROR_LIMIT and not run.overlaps
    bound = ""
    if len(jobs) == 2 and jobs[0] == jobs[1]:
        most = min(1 / (1 - jobs[0].share), 2.0)
        bound, good = f"{most:.3f}", good and speed_up >= SPEED_UP_LIMIT * most
    notes = ("" if good else "  BEYOND A LIMIT") + ("" if run.quiet else "  machine not quiet")
    alone = " ".join(f"{seconds * 1e3:.1f}" for seconds in run.solo_s or ())
    print(
        f"{name:22}{alone:>18}{period_s * 1e3:9.1f}{simulated_s * 1e3:11.1f}{error:8.1%}{speed_up:10.3f}"
        f"{bound:>8}{notes}",
        flush=True,
    )
    return good


if __name__ == "__main__":
    sys.exit(main())
