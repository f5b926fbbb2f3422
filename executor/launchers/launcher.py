"""Who starts the ranks of a run? This machine, Slurm or Ray: each runs a launch and says how it ended.

Another cluster is added as a package beside `on_ray`, with a class that has the attributes of Launcher, and a
line in find_launcher.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, Literal, Protocol, get_args

from executor.errors import ConfigurationError
from executor.launchers.asking import Tell
from executor.launchers.launch import Launch
from executor.launchers.local import LocalLauncher
from executor.launchers.outcome import Outcome

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


@dataclass(frozen=True)
class Wanted:
    """What a run wants of a cluster. Those of one launcher alone are named after it."""

    queue_limit_s: float = 600.0
    """How long it may wait for all of its places."""
    cpus_per_rank: int = 1
    gpus_per_rank: int | None = None
    """None: 1 where the ranks compute on CUDA devices, else 0."""
    slurm_partition: str | None = None
    slurm_account: str | None = None
    slurm_nodes: int | None = None
    """Over so many nodes; None leaves it to Slurm."""
    slurm_time_limit_min: int | None = None
    """None: what the run's own time limit needs."""
    slurm_folder: str | None = None
    """On a file system that all nodes share; None: in the user's cache folder."""
    slurm_options: tuple[tuple[str, str], ...] = ()
    """Further options of sbatch, by their long names."""
    ray_address: str | None = None
    """None: RAY_ADDRESS, or the cluster that runs on this machine."""
    ray_strategy: Literal["PACK", "SPREAD"] = "PACK"

    def gpus_of(self, launch: Launch) -> int:
        """GPUs of each rank."""
        if self.gpus_per_rank is not None:
            return self.gpus_per_rank
        return 1 if launch.device == "cuda" else 0

    def document(self) -> dict[str, Any]:
        """As JSON, for `read`."""
        return asdict(self)

    @classmethod
    def read(cls, document: dict[str, Any]) -> Wanted:
        """What `document` gave."""
        options = tuple((name, value) for name, value in document["slurm_options"])
        return cls(**document | {"slurm_options": options})


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
    if name == "slurm":
        from executor.launchers.on_slurm.launcher import SlurmLauncher

        return SlurmLauncher(wanted)
    from executor.launchers.on_ray.launcher import RayLauncher

    return RayLauncher(wanted)
