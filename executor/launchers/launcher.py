"""Who starts the ranks of a run? This machine, Slurm or Ray: each runs a launch and says how it ended.

Another cluster is added as a package beside `on_ray`, whose module `keeper` gets places for the ranks.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal, Protocol, get_args

from executor.errors import ConfigurationError
from executor.launchers.asking import Tell
from executor.launchers.launch import Launch
from executor.launchers.local import LocalLauncher
from executor.launchers.outcome import Outcome
from executor.launchers.wanted import Wanted

LauncherName = Literal["local", "slurm", "ray"]
LAUNCHERS: tuple[LauncherName, ...] = get_args(LauncherName)


class Launcher(Protocol):
    """Starts ranks, sees to their end, and leaves nothing of them behind."""

    @property
    def is_here(self) -> bool:
        """Whether the ranks run on this machine, so that its load tells how quiet theirs was."""

    def run(self, launch: Launch, tell: Tell | None = None) -> Outcome:
        """Run every rank and say how it ended; `tell` hears what it waits for before it begins.

        Raises TrialError where that could not be found out. Whatever interrupts this call ends the run.
        """


def find_launcher(name: LauncherName, wanted: Wanted | None = None) -> Launcher:
    """The launcher of that name; raises ConfigurationError where what it needs is not installed."""
    wanted = wanted or Wanted()
    if name == "local":
        return LocalLauncher()
    needs = {"slurm": "submitit", "ray": "ray"}[name]
    if find_spec(needs) is None:
        raise ConfigurationError(
            f"--launcher {name} needs {needs}: pip install 'chimera-tuner[executor,{name}]', here and on the "
            "nodes of the cluster"
        )
    from executor.launchers.gangs.launcher import GangLauncher

    return GangLauncher(f"executor.launchers.on_{name}.keeper", wanted)
