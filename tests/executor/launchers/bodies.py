"""What do the ranks of the launcher's tests run? Good and bad work over gloo, each noting its operations."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from executor.launchers.rank_process import Rank
from tuner.schedules.program import Kind, Op

Spec = dict[str, Any]


def connect(rank: Rank) -> None:
    """Join the ring of all ranks."""
    from torch import distributed

    rank.progress.doing("connecting")
    distributed.init_process_group("gloo", timeout=timedelta(seconds=60))


def pass_on(rank: Rank, value: float) -> float:
    """Send a number to the next rank and take one from the last."""
    import torch
    from torch import distributed

    received = torch.zeros(1)
    sent = torch.tensor([value])
    works = [
        distributed.isend(sent, (rank.rank + 1) % rank.ranks, tag=1),
        distributed.irecv(received, (rank.rank - 1) % rank.ranks, tag=1),
    ]
    rank.progress.wait()
    for work in filter(None, works):
        work.wait()
    rank.progress.go_on()
    return float(received)


def ring(spec: Spec, rank: Rank) -> dict[str, Any]:
    """Numbers go round; at `at`, the rank `victim` does `what`."""
    import torch

    connect(rank)
    value = float(rank.rank)
    for micro_batch in range(spec["rounds"]):
        rank.progress.note(micro_batch, Op(Kind.F, 0, rank.rank, micro_batch))
        if rank.rank == spec.get("victim") and micro_batch == spec.get("at", 0):
            FAULTS[spec["what"]]()
        value = pass_on(rank, value)
    return {"value": value, "threads": torch.get_num_threads(), "pid": os.getpid()}


def quit_early(spec: Spec, rank: Rank) -> None:
    """Rank 0 is gone before the first collective of a group that all have joined."""
    import torch
    from torch import distributed

    connect(rank)
    group = distributed.new_group(list(range(rank.ranks)))
    rank.progress.note(0, Op(Kind.SYNC, 0, 0, 0, group=0))
    if rank.rank == 0:
        os._exit(86)
    distributed.all_reduce(torch.ones(4), group=group)


def silent(spec: Spec, rank: Rank) -> None:
    """Rank 0 hangs in its operation, the others wait for it."""
    connect(rank)
    rank.progress.note(3, Op(Kind.B, 0, rank.rank, 2))
    if rank.rank == 0:
        hang()
    pass_on(rank, 0.0)


def allocate(spec: Spec, rank: Rank) -> dict[str, Any]:
    """The rank `victim` takes `bytes` of memory, and meters what it took."""
    import torch

    rank.progress.note(0, Op(Kind.F, 0, rank.rank, 0))
    if rank.rank == spec["victim"]:
        held = torch.ones(spec["bytes"], dtype=torch.uint8)
        del held
    rank.memory.restart()
    kept = torch.ones(spec.get("kept", 1), dtype=torch.uint8)
    peak = rank.memory.read()
    return {"kept": int(kept[-1]), **peak.document()}


def chatter(spec: Spec, rank: Rank) -> str:
    """Write to stdout, and to stderr below Python."""
    for _ in range(spec["lines"]):
        sys.stdout.write("x" * 1000 + "\n")
        faulthandler.dump_traceback(2)
    if rank.rank == spec.get("victim"):
        raise ValueError("after all that was said")
    return "said"


def tell_and_hang(spec: Spec, rank: Rank) -> None:
    """Write to a named pipe that all have begun, and never come back."""
    from torch import distributed

    connect(rank)
    distributed.barrier()
    if rank.rank == 0:
        Path(spec["pipe"]).write_text("begun", encoding="ascii")
    rank.progress.note(5, Op(Kind.W, 0, rank.rank, 1))
    hang()


def with_child(spec: Spec, rank: Rank) -> None:
    """Start a process that detaches itself from everything, and leave it behind."""
    import subprocess

    subprocess.Popen(["setsid", "sleep", "600"])


def divide() -> None:
    """An exception."""
    raise ZeroDivisionError("stage 2 divides by nothing")


def hang() -> None:
    """Wait for what never comes."""
    while True:
        time.sleep(60)


def end(number: int) -> None:
    """End this process by a signal."""
    os.kill(os.getpid(), number)


FAULTS = {
    "raise": divide,
    "kill": lambda: end(signal.SIGKILL),
    "stop": lambda: end(signal.SIGSTOP),
    "crash": lambda: end(signal.SIGSEGV),
    "leave": lambda: os._exit(0),
    "exit": lambda: os._exit(7),
    "hang": hang,
}
