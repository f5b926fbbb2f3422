"""How near do emulated pipelines come to their ideal, and to the prediction with one fitted hop cost?

    .venv/bin/python -P benchmarks/emulated_schedules.py [ITERATIONS]

Stages sleep. The cost of a hop is fitted to 1F1B (dapple) at D=4, N=8 alone and holds for all other rows.
Limits: measured over ideal 0.995 to 1.05; predicted against measured 4 %; speed-ups 5 %. The loop column is
one process that sleeps the same forwards and backwards just before a row, over what it should take: how far
the machine is to blame.
"""

import os
import statistics
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from executor.launchers.outcome import Status
from executor.trials.emulation import sharpen_sleep, sleep
from executor.trials.prepared_trial import PreparedTrial, prepare
from executor.trials.trial import periods, run_trial
from executor.trials.trial_request import read_trial
from tuner.simulation import simulate

FORWARD_S, BACKWARD_S = 0.02, 0.04
SCHEDULES, DEPTHS = ("dapple", "gpipe", "chimera"), (4, 8, 16)
LOOP_PAIRS = 10
LARGEST_HOP_S = 0.02
RATIOS, ERROR_LIMIT, SPEED_UP_LIMIT = (0.995, 1.05), 0.04, 0.05

Case = tuple[str, int, int]
"""Schedule, D and N."""


class Row(NamedTuple):
    """Seconds of an iteration, and how busy the machine was."""

    ideal_s: float
    measured_s: float
    loop: float
    load: float
    quiet: bool


def main() -> int:
    """Print the table and the speed-ups; 1 if a limit is broken."""
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    sharpen_sleep()
    fitted_s = measure(("dapple", 4, 8), iterations).measured_s
    hop_s = fit_hop(("dapple", 4, 8), fitted_s)
    print(f"hop {hop_s * 1e3:.3f} ms, fitted to dapple D=4 N=8 at {fitted_s * 1e3:.1f} ms")
    print(
        f"{'':16}{'ideal ms':>10}{'measured':>10}{'ratio':>8}{'predicted':>11}{'error':>8}"
        f"{'loop':>8}{'load':>7}"
    )
    rows: dict[Case, Row] = {}
    good = True
    for depth in DEPTHS:
        for micro_batches in (depth, 2 * depth):
            for schedule in SCHEDULES:
                case = (schedule, depth, micro_batches)
                rows[case] = measure(case, iterations)
                good &= print_row(case, rows[case], hop_s)
    good &= print_speed_ups(rows, hop_s)
    return 0 if good else 1


def measure(case: Case, iterations: int) -> Row:
    """Run the case in its own processes, a reference loop before it."""
    loop = reference_loop()
    trial = run_trial(prepared(case, iterations=iterations))
    if trial.status != Status.OK or trial.ideal_iteration_s is None:
        raise SystemExit(f"{case} did not end well: {trial.outcome.document()}")
    measured_s = statistics.median(trial.counted_s)
    return Row(trial.ideal_iteration_s, measured_s, loop, os.getloadavg()[0], trial.quiet)


def reference_loop() -> float:
    """Seconds of sleeping in turn, over those asked for."""
    start_s = time.perf_counter()
    for _ in range(LOOP_PAIRS):
        sleep(FORWARD_S)
        sleep(BACKWARD_S)
    return (time.perf_counter() - start_s) / (LOOP_PAIRS * (FORWARD_S + BACKWARD_S))


def prepared(case: Case, *, iterations: int = 1, hop_s: float = 0.0) -> PreparedTrial:
    """The case, ready to run or to predict."""
    schedule, depth, micro_batches = case
    emulate = {"forward_s": FORWARD_S, "backward_s": BACKWARD_S, "hop_s": hop_s}
    request = {
        "schedule": schedule,
        "depth": depth,
        "micro_batches": micro_batches,
        "iterations": iterations,
        "warm_up": 1,
        "emulate": emulate,
    }
    return prepare(read_trial(request))


def predict(case: Case, hop_s: float) -> float:
    """Seconds of an iteration."""
    trial = prepared(case, hop_s=hop_s)
    if trial.costs is None:
        raise SystemExit(f"{case} has no costs")
    return float(np.median(periods(simulate(trial.program, trial.costs))))


def fit_hop(case: Case, measured_s: float) -> float:
    """The hop with which `case` is predicted as measured, by bisection: predictions grow with the hop."""
    low, high = 0.0, LARGEST_HOP_S
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if predict(case, middle) < measured_s else (low, middle)
    return low


def print_row(case: Case, row: Row, hop_s: float) -> bool:
    """Whether the row is within its limits."""
    predicted_s = predict(case, hop_s)
    ratio, error = row.measured_s / row.ideal_s, predicted_s / row.measured_s - 1
    good = RATIOS[0] <= ratio <= RATIOS[1] and abs(error) <= ERROR_LIMIT
    notes = ("" if good else "  BEYOND A LIMIT") + ("" if row.quiet else "  machine not quiet")
    schedule, depth, micro_batches = case
    print(
        f"{schedule:8}{depth:3} {micro_batches:3} {row.ideal_s * 1e3:10.1f}{row.measured_s * 1e3:10.1f}"
        f"{ratio:8.3f}{predicted_s * 1e3:11.1f}{error:8.1%}{row.loop:8.3f}{row.load:7.2f}{notes}",
        flush=True,
    )
    return good


def print_speed_ups(rows: Mapping[Case, Row], hop_s: float) -> bool:
    """Chimera over the others at D=8, N=8; whether they are predicted within the limit."""
    good, chimera = True, ("chimera", 8, 8)
    for other in (("dapple", 8, 8), ("gpipe", 8, 8)):
        measured = rows[other].measured_s / rows[chimera].measured_s
        predicted = predict(other, hop_s) / predict(chimera, hop_s)
        error = predicted / measured - 1
        good &= abs(error) <= SPEED_UP_LIMIT
        print(
            f"chimera over {other[0]} at D=8 N=8: measured {measured:.3f}, "
            f"predicted {predicted:.3f}, {error:.1%}"
        )
    return good


if __name__ == "__main__":
    sys.exit(main())
