"""`chimera simulate`: how does one schedule run under given costs?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.errors import DONE, InputError
from cli.options import with_options
from tuner.schedule_names import SCHEDULES

if TYPE_CHECKING:
    from tuner.operation_costs import OperationCosts
    from tuner.simulation_request import SimulationRequest
    from tuner.timeline import Timeline

EXAMPLE = "chimera simulate --schedule chimera --depth 8 --micro-batches 16"

SCHEDULE = (
    click.option(
        "--schedule", required=True, metavar="NAME",
        help=f"{', '.join(SCHEDULES[:-1])} or {SCHEDULES[-1]}.",
    ),
    click.option("--depth", required=True, type=int, help="Pipeline ranks, D."),
    click.option("--micro-batches", required=True, type=int, help="Micro-batches of an iteration, N."),
    click.option(
        "--scaling", type=click.Choice(["direct", "doubling", "halving"]), default="direct",
        help="What chimera does when N > D.",
    ),
    click.option("--pipe-pairs", type=int, default=1, help="f; chimera runs 2f pipes."),
    click.option(
        "--chunks", type=int, show_default="the schedule's own",
        help="Stages per rank and pipe, of interleaved.",
    ),
    click.option(
        "--pending", type=int, show_default="D/2",
        help="Weight gradients that may wait on a rank of chimera_split.",
    ),
    click.option("--iterations", type=int, default=1, help="Iterations, one after the other."),
)  # fmt: skip

COSTS = (
    click.option(
        "--forward", type=float, default=1.0, help="Forward of one micro-batch on one rank; chunks share it."
    ),
    click.option("--backward", type=float, default=2.0, help="Its whole backward."),
    click.option(
        "--weight-gradient", type=float, show_default="half of --backward",
        help="The part of --backward that split schedules may defer.",
    ),
    click.option("--hop-latency", type=float, default=0.0, help="From the end of a stage to its neighbour."),
    click.option("--sync-time", type=float, default=0.0, help="All-reduce of one stage's gradients."),
    click.option(
        "--sync-policy", type=click.Choice(["lazy", "eager", "eager_opt"]), default="eager_opt",
        help="All-reduces start after all compute, as soon as they can, or so for later stages only.",
    ),
    click.option("--buckets", type=int, default=1, help="Pieces of an all-reduce."),
    click.option("--update-time", type=float, default=0.0, help="Optimizer step of one stage."),
)  # fmt: skip


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@with_options(SCHEDULE + COSTS)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--trace", type=click.Path(path_type=Path), metavar="FILE", help="Write the timeline to a file."
)
@click.option(
    "--format", "format", type=click.Choice(["perfetto", "torch-csv"]), show_default="perfetto",
    help="Of the file: Trace Event JSON for ui.perfetto.dev, or the order for torch.distributed.pipelining; "
    "without --trace it is printed.",
)  # fmt: skip
def simulate(*, as_json: bool, trace: Path | None, format: str | None, **asked: Any) -> int:
    """Simulate one schedule, operation by operation.

    Tells the makespan and what decides it, the bubbles, and how many micro-batches are alive.
    """
    from tuner.simulation_request import read_simulation

    if as_json and format and trace is None:
        raise InputError(f"--json and --format {format} both print: add --trace FILE")
    request = read_simulation(asked)
    timeline, costs, seconds = _run(request)
    written = _export(timeline, format or "perfetto") if trace or format else ""
    if trace:
        from cli.files import write_whole

        write_whole(trace, written)
        click.echo(f"Wrote the timeline to {trace}", err=True)
    if as_json:
        _print_json(request, timeline, costs=costs, seconds=seconds)
    elif format and trace is None:
        click.echo(written, nl=False)
    else:
        _print_text(request, timeline, costs=costs)
    return DONE


def _run(request: SimulationRequest) -> tuple[Timeline, OperationCosts, dict[str, float]]:
    """The timeline, its costs, and the seconds that making the program and simulating it took."""
    import gc
    from time import perf_counter

    from tuner.simulation import simulate as simulate_program
    from tuner.simulation_request import prepare

    start_s = perf_counter()
    gc.disable()  # millions of operations, and no garbage among them: looking for it takes half of the time
    try:
        program, costs = prepare(request)
    finally:
        gc.enable()
    ready_s = perf_counter()
    timeline = simulate_program(program, costs)
    return timeline, costs, {"generate_s": ready_s - start_s, "simulate_s": perf_counter() - ready_s}


def _export(timeline: Timeline, format: str) -> str:
    if format == "torch-csv":
        from tuner.torch_csv import torch_csv

        return torch_csv(timeline.compiled.program)
    from tuner.traces import trace_json

    return trace_json(timeline)


def _print_json(
    request: SimulationRequest, timeline: Timeline, *, costs: OperationCosts, seconds: dict[str, float]
) -> None:
    from profiles.document import canonical_json
    from tuner.simulation_answer import describe

    click.echo(canonical_json(describe(request, timeline, costs).model_dump(mode="json") | seconds))


def _print_text(request: SimulationRequest, timeline: Timeline, *, costs: OperationCosts) -> None:
    import os
    import shutil
    import sys

    from cli.simulated import describe_simulation
    from tuner.simulation_answer import describe

    answer = describe(request, timeline, costs)
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    columns = shutil.get_terminal_size((120, 24)).columns
    lines = describe_simulation(request, answer, timeline, columns=columns, colour=colour)
    click.echo("\n".join(lines), color=colour)
