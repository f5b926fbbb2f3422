"""How is a job in Slurm's queue, and what have its nodes? Slurm's own commands tell, without accounting."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass

from executor.launchers.gangs.room import Node

_PATIENCE_S = 30.0
_GPUS = re.compile(r"gpu(?::[^:(,]+)*:(\d+)")

WAITING = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "SUSPENDED"})
RUNNING = frozenset({"RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING"})
_IDLE = ("IDLE", "MIXED", "ALLOCATED", "COMPLETING", "PLANNED", "RESERVED")


class SlurmError(Exception):
    """A command of Slurm failed; the message is what it said."""


@dataclass(frozen=True)
class JobState:
    """Where a job stands."""

    state: str
    """As PENDING, RUNNING, CANCELLED; empty once Slurm has forgotten it."""
    reason: str
    """Why it waits or ended, in Slurm's word, as Resources."""
    nodes: str
    """As node[1-3]."""
    expected_start: str
    """When Slurm expects it to start; empty if it does not say."""

    @property
    def waits(self) -> bool:
        """Whether it has not begun."""
        return self.state in WAITING

    @property
    def over(self) -> bool:
        """Whether it has ended, however."""
        return self.state not in WAITING | RUNNING


def ask_slurm(*command: str) -> str:
    """What a command prints; raises SlurmError."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True, stdin=subprocess.DEVNULL
        ).stdout
    except subprocess.CalledProcessError as error:
        raise SlurmError((error.stderr or error.stdout or str(error)).strip()[-1000:]) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SlurmError(str(error)) from None


def job_state(job_id: str) -> JobState:
    """How a job is; one that Slurm does not know any more has an empty state. Raises SlurmError."""
    try:
        text = ask_slurm("scontrol", "show", "job", "--oneliner", job_id)
    except SlurmError as error:
        if "Invalid job id" in str(error):
            return JobState("", "", "", "")
        raise
    told = dict(re.findall(r"(\w+)=(\S*)", text))
    start = told.get("StartTime", "Unknown")
    return JobState(
        told.get("JobState", ""),
        told.get("Reason", ""),
        told.get("NodeList", ""),
        "" if start == "Unknown" else start,
    )


def cancel_job(job_id: str) -> None:
    """End a job, waiting or running; one that has ended stays as it is. Raises SlurmError."""
    ask_slurm("scancel", job_id)


def slurm_nodes(partition: str | None) -> list[Node]:
    """The nodes of a partition, or of the default one, with what is free on them. Raises SlurmError."""
    columns = "NodeHost:64,Partition:64,CPUsState:32,Gres:128,GresUsed:128,StateLong:32"
    text = ask_slurm("sinfo", "--noheader", "--Node", "--Format", columns)
    rows = [line.split() for line in text.splitlines() if line.strip()]
    wanted = [row for row in rows if _is_in(row[1], partition)]
    return [_node(row) for row in wanted]


def _is_in(name: str, partition: str | None) -> bool:
    return name.endswith("*") if partition is None else name.rstrip("*") == partition


def _node(row: list[str]) -> Node:
    name, _, cpus, gres, used, state = row
    _, idle, _, total = (int(number) for number in cpus.split("/"))
    gpus = _count_gpus(gres)
    works = any(state.upper().startswith(word) for word in _IDLE)
    return Node(
        name,
        {"CPU": total, "GPU": gpus},
        {"CPU": idle, "GPU": gpus - _count_gpus(used)},
        state="" if works else state,
    )


def _count_gpus(gres: str) -> int:
    """As `gpu:a100:4(S:0-1),gpu:2` has 6."""
    return sum(int(number) for number in _GPUS.findall(gres))
