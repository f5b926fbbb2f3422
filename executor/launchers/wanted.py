"""What does a run want of a cluster? Places, and how long it waits for them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from executor.launchers.launch import Launch


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
