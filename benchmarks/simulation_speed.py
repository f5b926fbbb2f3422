"""How fast are programs made, lowered and simulated, beside a fixed piece of work on the same machine?

    .venv/bin/python -P benchmarks/simulation_speed.py [REPEATS]

Every row has the medians of the processor time, the compute operations simulated per second with their
timeline, and the ratio of all three to the reference loop, which tells a slow change from a slow machine.
Limits: 0.5 million compute operations per second; D = 64, N = 2048 under 3 s.
"""

import gc
import statistics
import sys
import time

import numpy as np

from tuner.operation_costs import OperationCosts
from tuner.schedules.generators import generate
from tuner.schedules.lowering import lower
from tuner.schedules.program import COMPUTE
from tuner.simulation import simulate

CASES = (
    ("dapple", 8, 16),
    ("chimera", 8, 16),
    ("chimera", 8, 512),
    ("zb_v", 8, 512),
    ("chimera_split", 8, 512),
    ("dapple", 64, 2048),
    ("chimera", 64, 2048),
)


def main() -> None:
    """Print a row for each case; the reference loop runs before each measurement."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    gc.disable()
    header = ("generate s", "lower s", "simulate s", "million/s", "reference s", "x reference")
    print(f"{'':26}" + "".join(f"{word:>13}" for word in header))
    for schedule, depth, micro_batches in CASES:
        rows = [time_case(schedule, depth, micro_batches) for _ in range(repeats)]
        *times, reference_s, operations = (statistics.median(column) for column in zip(*rows, strict=True))
        numbers = (*times, operations / times[-1] / 1e6, reference_s, sum(times) / reference_s)
        name = f"{schedule} D={depth} N={micro_batches}"
        print(f"{name:26}" + "".join(f"{number:13.4f}" for number in numbers))


def time_reference_loop() -> float:
    """Seconds for work that no change of ours can make faster or slower: 3 million additions."""
    start_s = time.process_time()
    total = 0
    for number in range(3_000_000):
        total += number
    return time.process_time() - start_s


def time_case(schedule: str, depth: int, micro_batches: int) -> tuple[float, ...]:
    """Seconds to generate, to lower, to simulate and of the reference loop; the compute operations."""
    reference_s = time_reference_loop()
    times = [time.process_time()]
    program = generate(schedule, depth=depth, micro_batches=micro_batches)
    times.append(time.process_time())
    lowered = lower(program)
    times.append(time.process_time())
    timeline = simulate(lowered, OperationCosts.uniform(lowered))
    times.append(time.process_time())
    assert timeline.makespan_s > 0
    operations = int(np.isin(lowered.columns.kind, list(COMPUTE)).sum())
    return (*np.diff(times).tolist(), reference_s, operations)


if __name__ == "__main__":
    main()
