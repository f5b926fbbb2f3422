"""`chimera links`: how fast are the links of this machine, or between several?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.errors import DONE, InputError, UnavailableError
from cli.profile import Sizes

if TYPE_CHECKING:
    from executor.measuring.links import MeasuredLinks
    from profiles.cluster import ClusterProfile, Link

EXAMPLE = "chimera links --processes 2 --sizes 4096,65536,1048576 --budget 0.02"
_LONGEST_NAME = 200
_MEASURED = "cpu"
"""The accelerator on which two ranks show what the runtime takes."""
_MOST_ROUNDS = 5
_ROUND_BUDGET_S = 0.1
"""Of a layer, in a round that finds what the runtime takes."""


@click.command(epilog=f"\b\nExample:\n  {EXAMPLE}")
@click.option(
    "--processes", type=int, default=2, help="Started on this machine, unless torchrun started them."
)
@click.option(
    "--sizes", type=Sizes(), default="4096,16384,65536,262144,1048576,4194304,16777216", metavar="L,L,...",
    help="Bytes of messages and of values that are reduced.",
)  # fmt: skip
@click.option("--budget", type=click.FloatRange(0), default=0.5, help="Seconds of an operation at a size.")
@click.option("--name", default="measured", help="Of the cluster that is written.")
@click.option(
    "--accelerator", metavar="NAME", show_default="cpu",
    help="Data sheet of the devices (`chimera list accelerators`).",
)  # fmt: skip
@click.option(
    "--devices-per-node", type=click.IntRange(1, 10_000), show_default="processors", help="Ranks on a node."
)
@click.option(
    "--runtime/--no-runtime", default=True, show_default=True,
    help="On cpu, find what a run of two ranks adds to layers, operations and iterations.",
)  # fmt: skip
@click.option("--timeout", type=click.FloatRange(1), default=300.0, help="Seconds that all of it may take.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the cluster document, for --cluster FILE.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the cluster document.")
def links(
    *,
    processes: int,
    sizes: tuple[int, ...],
    budget: float,
    timeout: float,
    output: Path | None,
    as_json: bool,
    name: str,
    accelerator: str | None,
    devices_per_node: int | None,
    runtime: bool,
) -> int:
    """Measure messages and collectives between processes.

    Fits a latency and a bandwidth to what they take over gloo, finds what runs take beside layers and
    links, and writes a cluster for `chimera plan` and `chimera run`. For links between machines, start
    one `torchrun --nnodes 2 --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint HOST:PORT -m cli.main
    links -o FILE` on each; the first process answers.
    """
    if not 1 <= len(name) <= _LONGEST_NAME:
        raise InputError(f"--name has {len(name)} characters: give 1 to {_LONGEST_NAME}")
    accelerator = _known(accelerator)
    end = time.monotonic() + timeout
    measured = _measure(sizes, processes=processes, budget=budget, timeout=timeout)
    if measured is None:
        return DONE
    document = _document(measured, name=name, accelerator=accelerator, devices=devices_per_node)
    if runtime and document.node.accelerator == _MEASURED:
        document = _with_runtime(document, budget=budget, end=end)
    from cli.files import hand_out

    hand_out(
        document,
        output=output,
        as_json=as_json,
        told=f"Wrote the cluster to {output}. Next: chimera plan --cluster {output} ...",
        table=lambda: _table(document),
    )
    return DONE


def _known(accelerator: str | None) -> str | None:
    from profiles import library

    return None if accelerator is None else library.load_accelerator(accelerator).name


def _measure(
    sizes: tuple[int, ...], *, processes: int, budget: float, timeout: float
) -> MeasuredLinks | None:
    from tuner.link_fit import check_sizes

    check_sizes(sizes)
    try:
        from executor.errors import ConfigurationError, ExecutorError
        from executor.measuring.links import LinkPlan, measure_links
    except ImportError as error:
        raise UnavailableError(
            f"measuring needs the executor: {error}. Install chimera-tuner[executor]"
        ) from None
    try:
        return measure_links(LinkPlan(sizes, processes=processes, budget_s=budget, timeout_s=timeout))
    except ConfigurationError as error:
        raise InputError(str(error)) from None
    except ExecutorError as error:
        raise UnavailableError(str(error)) from error


def _document(
    measured: MeasuredLinks, *, name: str, accelerator: str | None, devices: int | None
) -> ClusterProfile:
    from executor.measuring.measured_cluster import cluster_of, notes_of
    from tuner.link_fit import LinkFitError

    for note in notes_of(measured):
        click.echo(f"note: {note}", err=True)
    try:
        return cluster_of(measured, name=name, accelerator=accelerator, devices=devices)
    except LinkFitError as error:
        raise UnavailableError(f"the times make no link: {error}") from None


def _with_runtime(document: ClusterProfile, *, budget: float, end: float) -> ClusterProfile:
    """The cluster with what the runtime takes, found until `end`; as it is where torchrun starts ranks."""
    from executor.errors import ExecutorError
    from executor.measuring.links import is_joined
    from executor.measuring.runtime_overheads import (
        OverheadPlan,
        measure_overheads,
        notes_of,
        with_overheads,
    )

    if is_joined():
        return document
    rounds = min(_MOST_ROUNDS, max(1, round(budget / _ROUND_BUDGET_S)))
    plan = OverheadPlan(
        rounds, budget_s=min(budget, _ROUND_BUDGET_S), timeout_s=max(1.0, end - time.monotonic())
    )
    try:
        found = measure_overheads(document, plan)
    except ExecutorError as error:
        raise UnavailableError(str(error)) from error
    for note in notes_of(found):
        click.echo(f"note: {note}", err=True)
    return with_overheads(document, found)


def _runtime(document: ClusterProfile) -> list[str]:
    """What the runtime takes, if that was measured."""
    from cli.quantities import seconds

    software = document.software
    if software.operation_overhead_s is None or software.iteration_overhead_s is None:
        return []
    told = (
        f"In a run layers take {software.compute_factor:.3f} of their time by themselves; the runtime adds "
        f"{seconds(software.operation_overhead_s)} to an operation of a stage and "
        f"{seconds(software.iteration_overhead_s)} to an iteration."
    )
    return [told]


def _beside(link: Link) -> list[str]:
    """What communication and computation of one process do to each other, if that was measured."""
    from cli.quantities import percent, seconds

    overlap = link.overlap
    if overlap is None:
        return []
    p2p, collective = overlap.p2p, overlap.collective
    told = (
        f"While a collective runs, computation takes {percent(overlap.slow_down)} longer (spread "
        f"{percent(overlap.slow_down_spread)}); beside computation a collective has "
        f"{seconds(collective.latency_s)} and {collective.bandwidth_bytes_per_s / 1e9:.2f} GB/s, a message "
        f"{seconds(p2p.latency_s)} and {p2p.bandwidth_bytes_per_s / 1e9:.2f} GB/s, and each end of a message "
        f"{seconds(overlap.occupancy_s)} of computation."
    )
    return [told]


def _table(document: ClusterProfile) -> list[str]:
    from cli.quantities import percent, seconds, table

    header = ("link", "operation", "processes", "latency", "bandwidth", "residual", "at most")
    named: list[tuple[str, Link | None]] = [("inside a node", document.node.link), ("between", document.link)]
    rows = [
        (
            where,
            fit.operation,
            str(fit.processes),
            seconds(fit.transfer.latency_s),
            f"{fit.transfer.bandwidth_bytes_per_s / 1e9:.2f} GB/s",
            percent(fit.residual),
            percent(fit.largest_residual),
        )
        for where, link in named
        if link is not None
        for fit in link.fits or ()
    ]
    return [
        document.description,
        *table(header, rows),
        *_beside(document.link),
        *_runtime(document),
        "Next: write the cluster with -o cluster.json, then chimera plan --cluster cluster.json ...",
    ]
