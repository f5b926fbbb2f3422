"""Does starting all-reduces early pay? eager and eager-opt against lazy, simulated and in real processes.

    .venv/bin/python -P benchmarks/overlap.py [ITERATIONS]        0 leaves the processes out

Simulated: every chimera program with D in {4, 8, 16}, N in {D, 2D, 4D}, W in {2, 4, 8} and every scaling,
F=1, B=2, with all-reduces that take SYNCS·2(r−1)/r over r = 2W replicas, of equal stages and with a head
that makes the last twice as long. With a slow-down of 0 and separate links eager-opt must never be slower
than lazy; where computation is slowed while collectives run, or one link carries them in turn, it is told
where lazy wins.

Measured: D=4, W=2 on stages that sleep, with emulated all-reduces, side by side and on one link. The gain
over lazy must have the predicted sign (beyond 1 % of an iteration) and be within 5 % of an iteration of it.
"""

import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np

from executor.launchers.outcome import Status
from executor.trials.prepared_trial import prepare
from executor.trials.trial import run_trial
from executor.trials.trial_request import read_trial
from tuner.configuration import Configuration, Scaling
from tuner.operation_costs import OperationCosts
from tuner.schedules.generators import program_of
from tuner.schedules.lowering import Lowering, lower
from tuner.schedules.program import Program
from tuner.schedules.updates import Synchronization, SyncPolicy
from tuner.simulation import simulate

DEPTHS, UNITS, WIDTHS = (4, 8, 16), (1, 2, 4), (2, 4, 8)
SYNCS = (0.5, 2.0, 8.0)
"""Seconds of an all-reduce per 2(r−1)/r, where a forward takes 1."""
HEADS = (1.0, 2.0)
"""Length of the last stage's all-reduce over that of others."""
SCALINGS: tuple[Scaling, ...] = ("direct", "doubling", "halving")
EARLY: tuple[SyncPolicy, ...] = ("eager", "eager_opt")
SLOWED_DEPTHS = (4, 8)
ROUNDING = 1e-9
FORWARD_S, BACKWARD_S, ALL_REDUCES_S = 0.1, 0.2, (0.2,)
SIGN_LIMIT, ERROR_LIMIT = 0.01, 0.05


class Case(NamedTuple):
    """One program."""

    depth: int
    micro_batches: int
    scaling: Scaling


class Machine(NamedTuple):
    """How collectives and computation share it."""

    name: str
    slow_down: float = 0.0
    lanes: int | None = None


SEPARATE = Machine("separate links, no slow-down")
OTHERS = (
    Machine("one link, no slow-down", lanes=1),
    Machine("separate links, slowed by 10 %", slow_down=0.1),
    Machine("separate links, slowed by 30 %", slow_down=0.3),
    Machine("one link, slowed by 30 %", slow_down=0.3, lanes=1),
)


def main() -> int:
    """Print all of it; 1 if a limit is broken."""
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    good = simulated()
    return 0 if (measured(iterations) if iterations else True) and good else 1


def cases(depths: tuple[int, ...] = DEPTHS) -> Iterator[Case]:
    """Every program: doubling and halving need more than one unit."""
    for depth in depths:
        for units in UNITS:
            for scaling in SCALINGS if units > 1 else SCALINGS[:1]:
                yield Case(depth, units * depth, scaling)


def programs(case: Case) -> dict[SyncPolicy, Program]:
    """The lowered program under every policy."""
    configuration = Configuration("chimera", 1, case.depth, 2, case.micro_batches, scaling=case.scaling)
    plain = program_of(configuration)
    policies: tuple[SyncPolicy, ...] = ("lazy", *EARLY)
    return {policy: lower(plain, Lowering(Synchronization(policy))) for policy in policies}


def gains(case: Case, machine: Machine) -> Iterator[tuple[int, float, dict[SyncPolicy, float]]]:
    """(W, all-reduce, share of the lazy iteration that each early policy saves)."""
    lowered = programs(case)
    for width in WIDTHS:
        for sync, head in product(SYNCS, HEADS):
            length = sync * 2 * (2 * width - 1) / (2 * width)
            plain = OperationCosts.uniform(lowered["lazy"], sync_s=length)
            sizes = plain.sync_s * np.where(np.arange(len(plain.sync_s)) == case.depth - 1, head, 1.0)
            costs = replace(plain, sync_s=sizes, slow_down=machine.slow_down, lanes=machine.lanes)
            lazy = simulate(lowered["lazy"], costs).makespan_s
            early = {policy: 1 - simulate(lowered[policy], costs).makespan_s / lazy for policy in EARLY}
            yield width, length, early


def simulated() -> bool:
    """Print gains by machine; whether eager-opt is never slower with separate links and no slow-down."""
    good = True
    for machine in (SEPARATE, *OTHERS):
        print(f"{machine.name}:")
        depths = SLOWED_DEPTHS if machine.slow_down else DEPTHS
        rows = [(case, *row) for case in cases(depths) for row in gains(case, machine)]
        for policy in EARLY:
            losing = [row for row in rows if row[3][policy] < -ROUNDING]
            saved = [row[3][policy] for row in rows]
            print(
                f"  {policy:10} saves {statistics.mean(saved):6.1%} of lazy on average, {max(saved):6.1%} at "
                f"most, {min(saved):6.1%} at least; slower in {len(losing)} of {len(rows)}"
            )
            for case, width, length, early in sorted(losing, key=lambda row: row[3][policy])[:3]:
                print(
                    f"    slower at D={case.depth} N={case.micro_batches} {case.scaling} W={width}, "
                    f"all-reduce {length:.2f} forwards: {early[policy]:.2%}"
                )
            if losing:
                print(f"    lazy wins at {_region(losing)}")
            good &= machine is not SEPARATE or policy != "eager_opt" or not losing
    return good


def _region(losing: list[tuple[Case, int, float, dict[SyncPolicy, float]]]) -> str:
    """Which depths, units, scalings and all-reduces."""
    depths = sorted({case.depth for case, *_ in losing})
    units = sorted({case.micro_batches // case.depth for case, *_ in losing})
    scalings = sorted({case.scaling for case, *_ in losing})
    lengths = [length for _, _, length, _ in losing]
    return (
        f"D in {depths}, N/D in {units}, {', '.join(scalings)}, all-reduces of {min(lengths):.2f} to "
        f"{max(lengths):.2f} forwards"
    )


def measured(iterations: int) -> bool:
    """Print what real processes save beside the prediction; whether both limits hold."""
    print(f"executor, D=4 W=2 N=4, F={FORWARD_S * 1e3:.0f} ms, B={BACKWARD_S * 1e3:.0f} ms:")
    good = True
    for all_reduce_s, lanes in product(ALL_REDUCES_S, (None, 1)):
        emulate = {"forward_s": FORWARD_S, "backward_s": BACKWARD_S, "all_reduce_s": all_reduce_s}
        found = {policy: run(policy, emulate | {"lanes": lanes}, iterations) for policy in ("lazy", *EARLY)}
        lazy_s, lazy_predicted_s = found["lazy"]
        for policy in EARLY:
            saved = 1 - found[policy][0] / lazy_s
            predicted = 1 - found[policy][1] / lazy_predicted_s
            agree = abs(predicted) < SIGN_LIMIT or saved * predicted > 0
            holds = agree and abs(saved - predicted) <= ERROR_LIMIT
            good &= holds
            print(
                f"  all-reduce {all_reduce_s * 1e3:.0f} ms {'one link' if lanes else 'separate'}, "
                f"{policy:9} saves {saved:6.1%} of {lazy_s * 1e3:.1f} ms, predicted {predicted:6.1%} of "
                f"{lazy_predicted_s * 1e3:.1f} ms{'' if holds else '  BEYOND A LIMIT'}",
                flush=True,
            )
    return good


def run(policy: str, emulate: dict[str, float | None], iterations: int) -> tuple[float, float]:
    """Measured and predicted seconds of an iteration."""
    request = {
        "schedule": "chimera",
        "width": 2,
        "depth": 4,
        "micro_batches": 4,
        "sync_policy": policy,
        "iterations": iterations,
        "warm_up": 1,
        "emulate": emulate,
    }
    trial = run_trial(prepare(read_trial(request)))
    if trial.status != Status.OK or trial.predicted is None:
        raise SystemExit(f"{policy} did not end well: {trial.outcome.document()}")
    return statistics.median(trial.counted_s), trial.predicted.makespan_s


if __name__ == "__main__":
    sys.exit(main())
