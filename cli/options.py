"""Which options ask for a plan? Those of tuner.request.PlanRequest, written out: --help needs no imports.

A test holds names, choices and defaults equal to the request's.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cli.choices import ATTENTIONS, OPTIMIZERS, PRECISIONS, RECOMPUTES, TARGETS

Command = TypeVar("Command", bound=Callable[..., Any])


def _once(_: click.Context, option: click.Parameter, numbers: tuple[int, ...]) -> int | None:
    """The number that an option was given; refuses two that differ, under whichever of its names."""
    if len(set(numbers)) > 1:
        told = " and ".join(map(str, dict.fromkeys(numbers)))
        raise click.BadParameter(
            f"{told} are given to one option ({', '.join(option.opts)}): give one number"
        )
    return numbers[0] if numbers else None


ONE_NUMBER: dict[str, Any] = {"type": int, "multiple": True, "callback": _once}
"""For an option with two names: click alone would take whichever stands last."""

WHAT = (
    click.option(
        "--model", required=True, metavar="NAME|PATH",
        help="A preset (`chimera list models`), a config.json of Hugging Face or its folder, or a profile.",
    ),
    click.option(
        "--cluster", metavar="NAME|PATH",
        help="A preset (`chimera list clusters`) or a cluster document; may be left out with --accelerator.",
    ),
    click.option(
        "--accelerator", metavar="NAME",
        help="Data sheet to use instead of the cluster's own (`chimera list accelerators`).",
    ),
    click.option("--devices", required=True, type=int, help="Accelerators to use, P."),
    click.option(
        "--mini-batch-size", "--global-batch-size", "mini_batch_size", required=True, **ONE_NUMBER,
        help="Samples per optimizer step.",
    ),
    click.option(
        "--sequence-length", type=int, show_default="the preset's",
        help="Tokens per sample; required with a config.json.",
    ),
)  # fmt: skip

TRAINING = (
    click.option(
        "--precision", type=click.Choice(PRECISIONS), show_default="the preset's, else bfloat16",
        help="The last two are mixed, with float32 master weights.",
    ),
    click.option(
        "--gradient-precision", type=click.Choice(["float32", "same"]), default="float32",
        help="Precision in which gradients are kept and reduced.",
    ),
    click.option(
        "--optimizer", type=click.Choice(OPTIMIZERS), default="adam",
        help="Decides the state kept for each weight.",
    ),
    click.option(
        "--optimizer-sharding", type=click.Choice(["none", "replicas"]), default="none",
        help="`replicas` divides the state over a stage's replicas (ZeRO-1, distributed optimizer).",
    ),
    click.option(
        "--attention", type=click.Choice(ATTENTIONS), show_default="the preset's, else flash",
        help="`eager` keeps the attention matrices.",
    ),
    click.option(
        "--recompute", type=click.Choice(RECOMPUTES), default="auto",
        help="`auto` recomputes activations only where nothing fits without.",
    ),
)  # fmt: skip

SEARCH = (
    click.option("--margin", type=float, default=0.05, help="Share of the memory that is kept free."),
    click.option(
        "--device-memory-bytes", type=int, show_default="as the data sheet says",
        help="Assume that each device has this memory.",
    ),
    click.option(
        "--link-bandwidth-factor", type=float, default=1.0,
        help="Assume all links, inside nodes and between them, so many times as fast.",
    ),
    click.option(
        "--schedules", metavar="A,B", show_default="the synchronous ones",
        help="Schedules to consider (`chimera list schedules`).",
    ),
    click.option(
        "--runs-on", type=click.Choice(TARGETS), default="any", help="Reject what this framework cannot run."
    ),
    click.option(
        "--partition", type=click.Choice(["balanced", "even"]),
        help="Cut stages by time, or into equal numbers of blocks (default balanced; paper's presets even).",
    ),
    click.option(
        "--width", "--data-parallel-size", "width", **ONE_NUMBER, help="Pin the number of pipeline groups, W."
    ),
    click.option(
        "--depth", "--pipeline-parallel-size", "depth", **ONE_NUMBER, help="Pin the pipeline depth, D."
    ),
    click.option("--micro-batch-size", type=int, help="Pin the samples per forward, B."),
    click.option(
        "--search", type=click.Choice(["greedy", "exhaustive"]), default="greedy",
        help="`greedy` takes the largest power-of-two B that fits, `exhaustive` tries all.",
    ),
    click.option("--top", type=int, default=20, help="Ranked candidates to list."),
    click.option(
        "--why", metavar="KEY=VALUE,...",
        help="Tell what the best candidate there loses, as in --why depth=8,schedule=dapple.",
    ),
)  # fmt: skip

MEASURED = (
    click.option(
        "--calibration", metavar="FILE",
        help="Predict as calibrated, with error bars (`chimera score` saves one).",
    ),
)  # fmt: skip

NOT_MODELLED = (
    click.option("--tensor-parallel", type=int, default=1, help="Only 1 is modelled."),
    click.option("--context-parallel", type=int, default=1, help="Only 1 is modelled."),
    click.option("--expert-parallel", type=int, default=1, help="Only 1 is modelled."),
    click.option("--offload", default="none", metavar="WHERE", help="Only none is modelled."),
    click.option(
        "--rank-order", type=click.Choice(["pipe_major", "data_major"]), default="pipe_major",
        help="Whether the ranks of a pipeline or the replicas of a stage share a node.",
    ),
    click.option(
        "--compression", default="none", metavar="A,B",
        help="Compressions of gradients that may be chosen beside none: fp16, bf16, topk, gaussiank, qsgd, "
        "a2sgd, powersgd, or any of them.",
    ),
)  # fmt: skip

REQUEST = WHAT + TRAINING + SEARCH + MEASURED + NOT_MODELLED


def with_options(options: tuple[Callable[[Command], Command], ...]) -> Callable[[Command], Command]:
    """Give a command these options, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
