"""How good is the choice of `chimera tune` on this machine, and how many trials does it take?

    .venv/bin/python -P benchmarks/tuned_choice.py [--trials 6] [--schedules a,b] [--mini-batch-size 16]

tiny-gpt on two processes: layers and links are measured, then trials are made until nothing can win or they
are spent, as `chimera tune` makes them. After that every configuration is run once. The best of those and the
choice of the tuning run five more times, in turn, so that both meet the same disturbances, and their medians
are compared. Bars: the choice is at most 5 % slower than the best, with at most half of the trials. These are
about 170 runs of several seconds each, so `make bench` leaves it out.
"""

import argparse
import os
import time
from statistics import median

from cli.tuned_subject import MOST_LOCAL_DEVICES
from executor.measuring.profiling import Plan
from executor.tuning.bench import Bench, How
from executor.tuning.here import links_here, profile_here, sizes_to_profile
from executor.tuning.session import Session
from profiles import library
from tuner.configuration import Configuration
from tuner.inputs import gather
from tuner.options import options_of
from tuner.refinement import Budget
from tuner.request import read_request
from tuner.trials import Option, Trial
from tuner.tuning import summarise

MODEL, CLUSTER = "tiny-gpt", "local-cpu"
ROUNDS = 5
MOST_REGRET, MOST_SHARE = 0.05, 0.5


def make_bench(asked: argparse.Namespace) -> tuple[Bench, tuple[Option, ...]]:
    """What can be tried, with layers and links as this machine has them."""
    sizes = sizes_to_profile(asked.mini_batch_size)
    plan = Plan(sizes, budget_s=0.2, accelerator="cpu")
    profile = profile_here(MODEL, plan, processes=asked.devices, progress=lambda *_: None)
    cluster, notes = links_here(library.load_cluster(CLUSTER), budget_s=0.1)
    print("; ".join([*profile.timings.notes, *notes]) or "layers and links: the machine was quiet")
    request = read_request(
        {
            "model": {"profile": profile.fingerprint(), "name": MODEL},
            "cluster": {"document": cluster},
            "devices": asked.devices,
            "mini_batch_size": asked.mini_batch_size,
            "schedules": asked.schedules,
            "recompute": asked.recompute,
        }
    )
    inputs = gather(request, library, profile=profile)
    return (
        Bench(inputs, MODEL, profile=profile, how=How(timed_s=asked.timed)),
        options_of(request, library, profile=profile),
    )


def tuned(bench: Bench, options: tuple[Option, ...], trials: int) -> list[Trial]:
    """The rows of a tuning."""
    session = Session(bench, options, budget=Budget(trials=trials))
    for attempt in session.attempts(lambda *_: None):
        show(attempt.row)
    print(f"stopped: {session.stopped}")
    return session.rows


def everything(bench: Bench, options: tuple[Option, ...]) -> list[Trial]:
    """Every configuration, once."""
    rows = []
    for option in options:
        rows.append(bench.attempt(option.configuration, option.predicted_s).row)
        show(rows[-1])
    return rows


def show(row: Trial) -> None:
    """A line."""
    measured = "" if row.measured_s is None else f"{row.measured_s * 1e3:9.2f}"
    print(
        f"{row.configuration!s:90} {row.predicted_s * 1e3:9.2f} {measured:>9} {row.status:14} "
        f"load {os.getloadavg()[0]:.1f}",
        flush=True,
    )


def fastest(rows: list[Trial]) -> Trial:
    """Of those that were measured."""
    return min((row for row in rows if row.measured_s is not None), key=lambda row: row.measured_s or 0.0)


def alternated(bench: Bench, first: Trial, second: Trial) -> tuple[float, float]:
    """Medians of ROUNDS runs of each, in turn."""
    times: dict[Configuration, list[float]] = {first.configuration: [], second.configuration: []}
    for _ in range(ROUNDS):
        for row in (first, second):
            measured_s = bench.attempt(row.configuration, row.predicted_s).row.measured_s
            if measured_s is not None:
                times[row.configuration].append(measured_s)
    return median(times[first.configuration]), median(times[second.configuration])


def main() -> None:
    """Print rows as they come, then the verdict."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=2, choices=range(1, MOST_LOCAL_DEVICES + 1))
    parser.add_argument("--mini-batch-size", type=int, default=16)
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--schedules", help="A,B; all with a flush unless given")
    parser.add_argument("--recompute", default="auto", choices=["auto", "none", "stage", "layer"])
    parser.add_argument("--timed", type=float, default=1.0, help="seconds of iterations in a trial")
    asked = parser.parse_args()
    start = time.monotonic()
    bench, options = make_bench(asked)
    print(f"{len(options)} configurations after {time.monotonic() - start:.0f} s; milliseconds an iteration")
    rows = tuned(bench, options, asked.trials)
    summary, winner = summarise(options, rows), fastest(rows)
    print(f"tuned after {time.monotonic() - start:.0f} s; all configurations:")
    best = fastest(everything(bench, options))
    if best.configuration == winner.configuration:
        print(f"regret 0.0 % (bar {MOST_REGRET:.0%}): the choice is the best of all")
    else:
        ours, theirs = alternated(bench, winner, best)
        verdict = "within" if ours / theirs - 1 <= MOST_REGRET else "BEYOND"
        print(
            f"regret {ours / theirs - 1:.1%} ({verdict} the bar of {MOST_REGRET:.0%}) by {ROUNDS} alternated "
            f"re-runs: {winner.configuration} against {best.configuration}"
        )
    share = len(rows) / len(options)
    print(
        f"trials {len(rows)} of {len(options)}, {share:.0%} (bar {MOST_SHARE:.0%}); model off by "
        f"{summary.error_before or 0:.1%} before, {summary.error_after or 0:.1%} after; "
        f"{time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
