"""Who starts the ranks of a run, and what does it want of a cluster? The options, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.errors import InputError

if TYPE_CHECKING:
    from executor.launchers.launcher import Launcher

_MINUTE_S = 60
_SLURM, _RAY = "Slurm: ", "Ray: "

LAUNCHING = (
    click.option(
        "--launcher", type=click.Choice(["local", "slurm", "ray"]), default="local",
        help="Who starts the ranks: this machine, or a cluster (docs/launchers.md).",
    ),
    click.option(
        "--queue-timeout", type=click.FloatRange(min=0), metavar="SECONDS", show_default="600",
        help="How long a run may wait until a cluster has room for all of its ranks at once.",
    ),
    click.option("--cpus-per-rank", type=int, show_default="1", help="Cores that a cluster gives each rank."),
    click.option(
        "--gpus-per-rank", type=int, show_default="1 with --device cuda, else 0",
        help="GPUs that a cluster gives each rank.",
    ),
    click.option("--partition", metavar="NAME", show_default="Slurm's", help=_SLURM + "where to queue."),
    click.option("--account", metavar="NAME", help=_SLURM + "who pays."),
    click.option(
        "--nodes", type=int, show_default="as many as it takes", help=_SLURM + "spread over so many nodes."
    ),
    click.option(
        "--time-limit", type=float, metavar="MINUTES", show_default="what --timeout needs",
        help=_SLURM + "time limit of the job.",
    ),
    click.option(
        "--shared-folder", envvar="CHIMERA_SHARED_FOLDER", metavar="PATH",
        show_default="CHIMERA_SHARED_FOLDER, else the user's cache folder",
        help=_SLURM + "a folder that all nodes share, for files while a run lasts.",
    ),
    click.option(
        "--slurm-option", "slurm_options", multiple=True, metavar="NAME=VALUE",
        help=_SLURM + "any other option of sbatch, such as qos=high; may be repeated.",
    ),
    click.option(
        "--ray-address", metavar="ADDRESS", show_default="RAY_ADDRESS, else the cluster on this machine",
        help=_RAY + "where its cluster is.",
    ),
    click.option("--spread", is_flag=True, help=_RAY + "over as many nodes as possible, not as few."),
)  # fmt: skip

_NAMES = {
    "queue_timeout": "queue_limit_s",
    "cpus_per_rank": "cpus_per_rank",
    "gpus_per_rank": "gpus_per_rank",
    "partition": "slurm_partition",
    "account": "slurm_account",
    "nodes": "slurm_nodes",
    "ray_address": "ray_address",
}


def take_launcher(asked: dict[str, Any]) -> Launcher:
    """The launcher that LAUNCHING chose, whose options are taken out of `asked`; raises InputError."""
    from executor.errors import ConfigurationError
    from executor.launchers.launcher import Wanted, find_launcher

    name, folder = asked["launcher"], asked.pop("shared_folder")
    wanted = {field: asked.pop(option) for option, field in _NAMES.items()}
    minutes, options, spread = asked.pop("time_limit"), asked.pop("slurm_options"), asked.pop("spread")
    wanted |= {
        "slurm_time_limit_min": minutes and max(1, round(minutes)),
        "slurm_folder": folder if name == "slurm" else None,
        "slurm_options": tuple(map(_read_option, options)) or None,
        "ray_strategy": "SPREAD" if spread else None,
    }
    given = {field: value for field, value in wanted.items() if value is not None}
    try:
        return find_launcher(name, Wanted(**given))
    except ConfigurationError as error:
        raise InputError(str(error)) from None


def _read_option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.strip().removeprefix("--")
    if not equals or not name.replace("-", "").replace("_", "").isalnum() or "\n" in value:
        raise InputError(f"--slurm-option {text[:100]!r}: write NAME=VALUE, such as qos=high")
    return name.replace("-", "_"), value
