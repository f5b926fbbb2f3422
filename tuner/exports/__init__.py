"""How is a plan written for the program that will run it? One small module per format, one line here."""

from collections.abc import Callable
from typing import NamedTuple

from tuner.exports.deepspeed import write_deepspeed
from tuner.exports.environment import write_environment
from tuner.exports.errors import NothingChosenError, UnknownFormatError
from tuner.exports.megatron import write_megatron
from tuner.exports.neutral import write_neutral
from tuner.exports.ray import write_ray
from tuner.exports.slurm import write_slurm
from tuner.exports.torchrun import write_torchrun
from tuner.exports.torchtitan import write_torchtitan
from tuner.plan import Chosen, Plan


class Exporter(NamedTuple):
    """A format: what writes it, and the media type it is served with."""

    write: Callable[[Plan, Chosen], str]
    media_type: str


EXPORTERS = {
    "megatron": Exporter(write_megatron, "text/plain"),
    "torchtitan": Exporter(write_torchtitan, "text/plain"),
    "deepspeed": Exporter(write_deepspeed, "application/json"),
    "torchrun": Exporter(write_torchrun, "text/plain"),
    "slurm": Exporter(write_slurm, "text/plain"),
    "ray": Exporter(write_ray, "text/plain"),
    "env": Exporter(write_environment, "text/plain"),
    "json": Exporter(write_neutral, "application/json"),
}

FORMATS = tuple(EXPORTERS)


def export(plan: Plan, format: str) -> tuple[str, str]:
    """Write the choice in a format of FORMATS; returns the text and its media type. Raises ExportError."""
    exporter = EXPORTERS.get(format)
    if exporter is None:
        raise UnknownFormatError(f"unknown export format {format[:60]!r}; choose from {', '.join(FORMATS)}")
    if plan.chosen is None:
        change = f"; the smallest change is {plan.smallest_change.change}" if plan.smallest_change else ""
        raise NothingChosenError(
            f"nothing fits on {plan.cluster.devices:,} x {plan.cluster.accelerator}, so there is nothing to "
            f"export as {format}{change}"
        )
    return exporter.write(plan, plan.chosen), exporter.media_type
