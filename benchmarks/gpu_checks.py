"""Do runs on a GPU take the time and the memory that is predicted for them? In under eight minutes on one.

    .venv/bin/python -P benchmarks/gpu_checks.py [cuda | cpu]

1. A profile of a model, taken twice: how far medians move.
2. One rank, whose backend is NCCL at world size 1: iteration and the allocator's peak beside the prediction.
3. Two ranks on the one device, whose messages go through page-locked memory of the host over gloo: the same,
   and in float64 the gradients, weights and losses of one process.

Limits: a repeated profile within 2 %, memory predicted within 5 % and not below, equality in float64. Times
have none: two ranks share the device, which the prediction does not know. `cpu` runs the same on a small
model where there is no GPU; there memory is a resident set with all code in it, and equality the only limit.
"""

import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch

from executor.launchers.outcome import Status
from executor.measuring.profiling import Plan, take_profile
from executor.models.sources import describe_model, open_model
from executor.trials.resolution import resolve
from executor.trials.trial import Trial, run_trial
from executor.trials.trial_request import read_trial
from profiles import library
from profiles.timings import Profile
from tuner.evaluated import Variant
from tuner.evaluation import Evaluator
from tuner.inputs import gather
from tuner.request import read_request
from tuner.schedules import find_scheme
from tuner.space import Layout

REPEATED, MEMORY = 0.02, (0.0, 0.05)
TRIAL_S = 120.0


@dataclass(frozen=True)
class Bench:
    """What is run on a device."""

    device: str
    model: str
    micro_batch_size: int
    micro_batches: int
    budget_s: float


BENCHES = {
    "cuda": Bench("cuda", "gpt2-small", 4, 8, 1.0),
    "cpu": Bench("cpu", "tiny-gpt", 2, 4, 0.2),
}


def main() -> int:
    """Print every figure beside its limit; 1 if one is broken, 2 if there is no such device."""
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        print(
            "torch sees no CUDA device here: nothing was checked; `gpu_checks.py cpu` runs the same on a CPU"
        )
        return 2
    bench, start_s = BENCHES[device], time.monotonic()
    profile, good = take_profiles(bench)
    good &= run_alone(bench, profile)
    for schedule in ("dapple", "chimera"):
        good &= run_shared(bench, profile, schedule)
    print(f"{time.monotonic() - start_s:.0f} s; " + ("all within limits" if good else "BEYOND A LIMIT"))
    return 0 if good else 1


def take_profiles(bench: Bench) -> tuple[Profile, bool]:
    """The second of two profiles, and whether its medians are those of the first."""
    options: dict[str, Any] = {"precision": "float32"}
    described = describe_model(bench.model, **options)
    model = open_model(bench.model, sequence_length=described.sequence_length, **options)
    plan = Plan((bench.micro_batch_size,), device=bench.device, budget_s=bench.budget_s)
    first, second = (take_profile(model, plan, name=bench.model, description=described) for _ in range(2))
    pairs = list(zip(_passes(first), _passes(second), strict=True))
    moved = max(abs(after / before - 1) for (_, before), (_, after) in pairs)
    print(f"profile of {bench.model} on {second.timings.accelerator}, B={bench.micro_batch_size}")
    for (name, before), (_, after) in pairs:
        print(f"  {name:24}{before * 1e3:9.3f} ms, again {after * 1e3:9.3f} ms")
    print(f"  repeated within {moved:.1%}; limit {REPEATED:.0%}", flush=True)
    return second, moved <= REPEATED or bench.device == "cpu"


def _passes(profile: Profile) -> list[tuple[str, float]]:
    """Seconds of whole passes; a loss of microseconds is no subject."""
    return [
        (f"{kind.type} {name}", seconds)
        for kind in profile.timings.types
        for point in kind.points
        for name, seconds in (("forward", point.forward_s), ("backward", point.backward_s))
        if seconds > 50e-6
    ]


def run_alone(bench: Bench, profile: Profile) -> bool:
    """One rank: time and memory beside the prediction."""
    trial = run(bench, profile, schedule="dapple", depth=1)
    return trial is not None and print_trial(trial, bench, profile, timed=True)


def run_shared(bench: Bench, profile: Profile, schedule: str) -> bool:
    """Two ranks on the device, then a small model in float64 beside one process."""
    trial = run(bench, profile, schedule=schedule, depth=2)
    good = trial is not None and print_trial(trial, bench, profile, timed=False)
    checked = run(BENCHES["cpu"], None, schedule=schedule, depth=2, device=bench.device, check=True)
    check = (checked.document()["check"] if checked else None) or {"passed": False}
    print(f"  {schedule} D=2 in float64 beside one process: {check}", flush=True)
    return good and bool(check["passed"])


def run(bench: Bench, profile: Profile | None, **asked: Any) -> Trial | None:
    """A trial that ended well; None, and its failure is printed, where it did not."""
    request = read_trial(
        {
            "model": bench.model,
            "micro_batches": bench.micro_batches,
            "micro_batch_size": bench.micro_batch_size,
            "precision": "float32" if profile else "float64",
            "device": bench.device,
            "iterations": 10 if profile else 1,
            "warm_up": 3 if profile else 0,
            "timeout_s": TRIAL_S,
            **asked,
        }
    )
    prepared, expected = resolve(request, cluster=cluster_of(profile), profile=profile)
    trial = run_trial(prepared, costs=expected.costs if expected else None)
    if trial.status == Status.OK:
        return trial
    failure = trial.outcome.failure
    print(f"  {prepared.configuration}: {trial.status}: {failure.message if failure else ''}")
    return None


def cluster_of(profile: Profile | None) -> str:
    """A shipped cluster of the profiled device; a single rank needs no links of it."""
    wanted = profile.timings.accelerator if profile else "cpu"
    names = library.names("clusters")
    return next(
        (name for name in names if library.load_cluster(name).node.accelerator == wanted), "local-cpu"
    )


def print_trial(trial: Trial, bench: Bench, profile: Profile, *, timed: bool) -> bool:
    """Measured beside predicted, in time and memory; whether the memory is within its limit."""
    told = trial.document()
    measured, predicted = statistics.median(trial.counted_s), told["predicted_iteration_s"]
    spread = told["measured_iteration_s"]
    print(f"{trial.prepared.configuration}{'' if trial.quiet else ', machine not quiet'}")
    print(
        f"  iteration {measured * 1e3:9.2f} ms ({spread['p10'] * 1e3:.2f} to {spread['p90'] * 1e3:.2f}), "
        f"predicted {predicted * 1e3:9.2f} ms, {predicted / measured - 1:+.1%}"
        + ("" if timed else " (the ranks share the device)")
    )
    good = True
    expected = predicted_bytes(trial, profile)
    for rank, (peak, bytes_) in enumerate(zip(told["peak_memory_bytes"], expected, strict=True)):
        over = bytes_ / max(1, peak) - 1
        print(f"  rank {rank}: peak {peak / 1e9:.3f} GB, predicted {bytes_ / 1e9:.3f} GB, {over:+.1%}")
        good &= bench.device == "cpu" or MEMORY[0] <= over <= MEMORY[1]
    sys.stdout.flush()
    return good


def predicted_bytes(trial: Trial, profile: Profile) -> list[float]:
    """What torch's allocator should hold on every rank: all but the context and the reserve."""
    configuration = trial.prepared.configuration
    request = read_request(
        {
            "model": {"profile": profile.fingerprint()},
            "cluster": cluster_of(profile),
            "devices": configuration.width * configuration.depth,
            "mini_batch_size": configuration.mini_batch_size,
            "optimizer": trial.prepared.request.optimizer,
            "schedules": [configuration.schedule],
        }
    )
    evaluator = Evaluator(gather(request, library, profile=profile))
    variant = Variant(
        scheme=find_scheme(configuration.schedule),
        layout=Layout(configuration.width, configuration.depth),
        scaling=configuration.scaling,
        pipe_pairs=configuration.pipe_pairs,
        recompute=configuration.recompute,
    )
    evaluated = evaluator.evaluate(variant, torch.tensor([configuration.micro_batch_size]).numpy())
    if evaluated is None:
        raise SystemExit(f"{configuration} cannot be evaluated")
    left_out = {"framework_bytes", "reserve_bytes"}
    parts = [values[0] for name, values in evaluated.memory.by_name().items() if name not in left_out]
    total: list[float] = sum(parts).tolist()
    return total


if __name__ == "__main__":
    sys.exit(main())
