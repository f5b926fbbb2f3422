"""How is the job of a launch submitted? By submitit, as a task for each rank, all of which start together."""

from __future__ import annotations

import math
from typing import Any

import submitit

from executor.launchers.gangs.keeper import UnplacedError
from executor.launchers.gangs.room import tell_room
from executor.launchers.launch import Launch
from executor.launchers.on_slurm.board import Board
from executor.launchers.on_slurm.queue import SlurmError, slurm_nodes
from executor.launchers.on_slurm.task import hold_place
from executor.launchers.outcome import Status
from executor.launchers.wanted import Wanted

_MARGIN_S = 60.0
_WORDS = 1000


def submit(launch: Launch, wanted: Wanted, board: Board) -> str:
    """The id of the new job; raises UnplacedError with Slurm's words where Slurm does not take it."""
    try:
        executor = submitit.SlurmExecutor(folder=board.folder, max_num_timeout=0)
        executor.update_parameters(**_parameters(launch, wanted))
        return str(executor.submit(hold_place, str(board.folder)).job_id)
    except (submitit.core.utils.UncompletedJobError, RuntimeError, OSError) as error:
        said = "; ".join(str(error).strip()[-_WORDS:].splitlines())
        raise UnplacedError(
            Status.FAILED, f"Slurm did not take the job: {said}; {room(launch, wanted)}"
        ) from None


def room(launch: Launch, wanted: Wanted) -> str:
    """What the nodes of the partition have, in words."""
    each = {"CPU": float(wanted.cpus_per_rank), "GPU": float(wanted.gpus_of(launch))}
    try:
        return tell_room(slurm_nodes(wanted.slurm_partition), ranks=launch.ranks, wanted=each)
    except (SlurmError, ValueError):
        return "what its nodes have is not known"


def _parameters(launch: Launch, wanted: Wanted) -> dict[str, Any]:
    limits, gpus = launch.limits, wanted.gpus_of(launch)
    minutes = math.ceil((limits.start_up_s + limits.timeout_s + _MARGIN_S) / 60)
    further: dict[str, Any] = {
        "ntasks": launch.ranks,
        "nodes": wanted.slurm_nodes or f"1-{launch.ranks}",
        "no-requeue": True,  # who waits for the answer would not know of a second run
        "signal": "B:CONT@1",  # submitit's would end the ranks a while before their time is over
    }
    asked = {
        "job_name": "chimera-run",
        "time": wanted.slurm_time_limit_min or minutes,
        "partition": wanted.slurm_partition,
        "account": wanted.slurm_account,
        "cpus_per_task": wanted.cpus_per_rank,
        "gpus_per_task": gpus or None,
        # Since 22.05 srun does not take it over from the job.
        "srun_args": [f"--cpus-per-task={wanted.cpus_per_rank}"],
        "additional_parameters": further | dict(wanted.slurm_options),
    }
    return {name: value for name, value in asked.items() if value is not None}
