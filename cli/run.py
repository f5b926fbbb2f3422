"""`chimera run`: how does one configuration do when it is really run?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.choices import OPTIMIZERS
from cli.errors import DONE, NEGATIVE, NOT_ANSWERED, InputError, UnavailableError
from cli.launching import LAUNCHING, take_launcher
from cli.options import with_options
from cli.simulate import SCHEDULE

if TYPE_CHECKING:
    from executor.launchers.launcher import Launcher
    from executor.trials.prepared_trial import PreparedTrial
    from executor.trials.trial import Trial
    from tuner.enactment import Expectation

EXAMPLE = (
    "chimera run --schedule chimera --depth 2 --micro-batches 4 --emulate forward_s=0.005,backward_s=0.01"
)

LAYOUT = (
    *SCHEDULE[:-2],  # without --pending and --iterations
    click.option("--width", type=int, default=1, help="Pipeline groups, W; W x D processes are started."),
    click.option("--micro-batch-size", type=int, default=1, help="Samples per forward, B."),
    click.option(
        "--stage-layers", metavar="L,L,...", show_default="even",
        help="Blocks of each stage, as a plan's `stage_layers`.",
    ),
    click.option(
        "--recompute", type=click.Choice(["none", "stage", "layer"]), default="none",
        help="Activations to compute again in the backward.",
    ),
    click.option(
        "--sync-policy", type=click.Choice(["lazy", "eager", "eager_opt"]), default="eager_opt",
        help="All-reduces start after all compute, as soon as they can, or so for later stages only.",
    ),
    click.option("--buckets", type=int, default=1, help="Pieces of an all-reduce, at least."),
    click.option(
        "--bucket-bytes", type=int, default=26_214_400, help="Largest piece; more are made where needed."
    ),
    click.option("--optimizer", type=click.Choice(OPTIMIZERS), default="adam", help="Steps the weights."),
    click.option(
        "--optimizer-sharding", type=click.Choice(["none", "replicas"]), default="none",
        help="`replicas` divides the optimizer's state over a stage's replicas.",
    ),
    click.option(
        "--compression", default="none", metavar="HOW",
        help="Of gradients: fp16, bf16, topk, gaussiank, qsgd, a2sgd, powersgd, or as in topk:0.001.",
    ),
)  # fmt: skip

WHAT = (
    click.option("--model", metavar="NAME|PATH", help="A preset, a config.json, or package.module:factory."),
    click.option("--sequence-length", type=int, help="Tokens per sample; required with a config.json."),
    click.option(
        "--profile", metavar="PATH",
        help="Measured times of the model's layers (chimera profile), for the prediction.",
    ),
    click.option(
        "--cluster", default="local-cpu", metavar="NAME|PATH",
        help="Links, and without --profile the accelerator, of the prediction.",
    ),
    click.option(
        "--emulate", metavar="KEY=VALUE,...",
        help="Sleep instead of computing: forward_s, backward_s, and as wanted weight_gradient_s, "
        "message_bytes, all_reduce_s, lanes, update_s, hop_s.",
    ),
)  # fmt: skip

HOW = (
    click.option("--iterations", type=int, default=10, help="Iterations that are timed."),
    click.option("--warm-up", type=int, default=2, help="Iterations before those."),
    click.option(
        "--precision", type=click.Choice(["float32", "bfloat16", "float16", "float64"]), default="float32",
        help="bfloat16 and float16 are mixed, with float32 master weights.",
    ),
    click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", help="Where ranks compute."),
    click.option("--check", is_flag=True, help="Compare losses, gradients and weights with one process."),
    click.option("--timeout", type=float, default=600.0, help="Seconds that all of it may take."),
    click.option("--memory-limit", type=int, metavar="BYTES", help="Of each rank, beyond its start."),
    click.option("--seed", type=int, default=0, help="Of weights, samples and dropout."),
)  # fmt: skip


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@with_options(LAYOUT + WHAT + HOW + LAUNCHING)
@click.option(
    "--trace", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the measured and the predicted timeline for ui.perfetto.dev.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def run(*, trace: Path | None, as_json: bool, **asked: Any) -> int:
    """Run one configuration in real processes.

    Tells what an iteration takes beside what was predicted, and the memory of every rank.
    """
    launcher = take_launcher(asked)
    prepared, expected = _prepare(asked)
    trial = _run(prepared, expected, launcher)
    if trace and trial.measured is not None:
        from cli.files import write_whole
        from executor.trials.compared_trace import compared_trace

        write_whole(trace, compared_trace(trial.measured, trial.predicted))
        click.echo(f"Wrote the timelines to {trace}", err=True)
    if as_json:
        from profiles.document import canonical_json

        click.echo(canonical_json(trial.document()))
    else:
        from cli.trial import describe_trial

        click.echo("\n".join(describe_trial(trial)))
    return exit_code_of(trial)


def exit_code_of(trial: Trial) -> int:
    """0 done, 1 it ran and the answer is negative, 3 it cannot be told."""
    from executor.launchers.outcome import Status

    if trial.status == Status.OK:
        check = trial.document()["check"]
        return DONE if check is None or check["passed"] else NEGATIVE
    if trial.status == Status.TIMED_OUT or _lost(trial):
        return NOT_ANSWERED
    return NEGATIVE


def _lost(trial: Trial) -> bool:
    """Whether a process was taken away, rather than having failed by itself."""
    failure = trial.outcome.failure
    return failure is not None and failure.lost


def _prepare(asked: dict[str, Any]) -> tuple[PreparedTrial, Expectation | None]:
    from cli.sources import read_cluster, read_model
    from executor.errors import ConfigurationError, ModelError
    from executor.trials.resolution import resolve
    from executor.trials.trial_request import read_trial

    cluster, named = read_cluster(asked.pop("cluster")), asked.pop("profile")
    profile = read_model(named)[1] if named else None
    if named and profile is None:
        raise InputError(f"--profile {named[:200]!r} is no profile document: write one with chimera profile")
    value = {key: given for key, given in asked.items() if key not in {"timeout", "memory_limit"}}
    if asked["model"] and ":" not in asked["model"]:
        value["model"] = _runnable(read_model(asked["model"])[0])
    value |= {"timeout_s": asked["timeout"], "memory_limit_bytes": asked["memory_limit"]}
    value["emulate"] = read_emulation(asked["emulate"])
    value["partition"] = read_stage_layers(value.pop("stage_layers"))
    try:
        prepared, expected = resolve(read_trial(value), cluster=cluster, profile=profile)
    except (ConfigurationError, ModelError) as error:
        raise InputError(str(error)) from None
    for note in expected.notes if expected and profile else ():
        click.echo(f"Note: {note}", err=True)
    return prepared, expected


def _runnable(model: Any) -> Any:
    if isinstance(model, dict) and "profile" in model:
        raise InputError(
            "a profile has no weights to run: give --model the preset or config.json it is of, and "
            "--profile the profile"
        )
    return model


def read_stage_layers(text: str | None) -> tuple[int, ...] | None:
    """L,L,... as whole numbers; raises InputError."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and len(word) <= 9 for word in words):
        raise InputError(f"--stage-layers {text[:100]!r}: write the blocks of each stage, such as 3,3,2")
    return tuple(map(int, words))


def read_emulation(text: str | None) -> dict[str, float] | None:
    """KEY=VALUE,... as numbers; raises InputError."""
    if text is None:
        return None
    values: dict[str, float] = {}
    for pair in text.split(","):
        key, equals, number = pair.strip().partition("=")
        if not equals or key in values:
            raise InputError(f"--emulate {pair!r}: write forward_s=0.02,backward_s=0.04, each name once")
        try:
            whole = key == "lanes" or key.endswith("_bytes")
            values[key] = int(number) if whole else float(number)
        except ValueError:
            raise InputError(f"--emulate {pair!r}: {number!r} is not a number") from None
    return values


def _run(prepared: PreparedTrial, expected: Expectation | None, launcher: Launcher) -> Trial:
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UnavailableError("running needs torch: pip install 'chimera-tuner[executor]'")
    from executor.errors import ExecutorError
    from executor.trials.trial import run_trial

    click.echo(f"Running {prepared.configuration} in {prepared.request.ranks} processes", err=True)
    costs = expected.costs if expected else None
    try:
        return run_trial(
            prepared, costs=costs, launcher=launcher, tell=lambda text: click.echo(text, err=True)
        )
    except ExecutorError as error:
        raise UnavailableError(str(error)) from error
