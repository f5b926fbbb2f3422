"""Who starts the ranks of a run, and what does it want of a cluster? The options, and what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cli.errors import InputError

if TYPE_CHECKING:
    from executor.launchers.launcher import Launcher
    from executor.launchers.wanted import Wanted

_SLURM, _RAY = "Slurm: ", "Ray: "

LAUNCHING = (
    click.option(
        "--launcher", type=click.Choice(["local", "slurm", "ray"]), default="local",
        help="Who starts the ranks: this machine, or a cluster (docs/launchers.md).",
    ),
    click.option(
        "--queue-timeout", type=click.FloatRange(0, 2_592_000), metavar="SECONDS", show_default="600",
        help="How long a run may wait until a cluster has room for all of its ranks at once.",
    ),
    click.option(
        "--cpus-per-rank", type=click.IntRange(1, 1000), show_default="1",
        help="Cores that a cluster gives each rank.",
    ),
    click.option(
        "--gpus-per-rank", type=click.IntRange(0, 1000), show_default="1 with --device cuda, else 0",
        help="GPUs that a cluster gives each rank.",
    ),
    click.option("--partition", metavar="NAME", show_default="Slurm's", help=_SLURM + "where to queue."),
    click.option("--account", metavar="NAME", help=_SLURM + "who pays."),
    click.option(
        "--nodes", type=click.IntRange(1, 100_000), show_default="as many as it takes",
        help=_SLURM + "spread over so many nodes.",
    ),
    click.option(
        "--time-limit", type=click.IntRange(1, 43_200), metavar="MINUTES",
        show_default="what --timeout needs", help=_SLURM + "time limit of the job.",
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
    "time_limit": "slurm_time_limit_min",
    "slurm_options": "slurm_options",
    "ray_address": "ray_address",
    "spread": "ray_strategy",
}


def take_launcher(asked: dict[str, Any]) -> Launcher:
    """The launcher that LAUNCHING chose, whose options are taken out of `asked`; raises InputError."""
    from executor.errors import ConfigurationError
    from executor.launchers.launcher import find_launcher

    try:
        return find_launcher(asked["launcher"], take_wanted(asked))
    except ConfigurationError as error:
        raise InputError(str(error)) from None


def take_wanted(asked: dict[str, Any]) -> Wanted:
    """What the options say of a cluster, taken out of `asked` all but the launcher's name."""
    from executor.launchers.wanted import Wanted

    name, folder = asked["launcher"], asked.pop("shared_folder")
    found = {option: asked.pop(option) for option in _NAMES}
    # Nothing else is unset: 0 GPUs are a number of them.
    given = {
        option: value for option, value in found.items() if value not in (None, ()) and value is not False
    }
    _refuse_others(name, given)
    wanted = {_NAMES[option]: value for option, value in given.items()}
    if "slurm_options" in wanted:
        wanted["slurm_options"] = tuple(map(_read_option, wanted["slurm_options"]))
    if "ray_strategy" in wanted:
        wanted["ray_strategy"] = "SPREAD"
    if name == "slurm" and folder:
        wanted["slurm_folder"] = folder
    return Wanted(**wanted)


def _refuse_others(name: str, given: dict[str, Any]) -> None:
    """Raises InputError for an option of another launcher."""
    for option in given:
        owner = _NAMES[option].partition("_")[0]
        owners = [owner] if owner in {"slurm", "ray"} else ["slurm", "ray"]
        if name not in owners:
            word = "--" + option.removesuffix("s" if option == "slurm_options" else "").replace("_", "-")
            raise InputError(
                f"{word} is for --launcher {' or '.join(owners)}, and this is {name}: leave it out"
            )


def _read_option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    name = name.strip().removeprefix("--")
    if not equals or not name.replace("-", "").replace("_", "").isalnum() or "\n" in value:
        raise InputError(f"--slurm-option {text[:100]!r}: write NAME=VALUE, such as qos=high")
    return name.replace("-", "_"), value
