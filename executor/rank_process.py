"""What does the process of one rank do around the work itself? It prepares, calls the body, and reports."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

from executor.failure import Meaning, meaning_of, report_of
from executor.launchers.launch import Launch, read_launch
from executor.peak_memory import MemoryMeter, limit_memory
from executor.processes import die_with_parent
from executor.progress import Progress, ProgressArea

_LINGER_S = 2.0
"""So long a rank that lost a peer stays, so that the peer's death is seen before its own exit."""
_EXIT_CODE = 1


@dataclass(frozen=True)
class Rank:
    """What a body is given beside its spec."""

    rank: int
    ranks: int
    progress: Progress
    memory: MemoryMeter
    """Its baseline is taken; `restart()` it where the timed iterations begin."""
    device: str
    """`cpu`, or `cuda:i`, which is the current device already."""


def rank_main(launch_path: str, area_path: str) -> str:
    """Run the body of this process's rank, given by RANK; its result as a JSON text."""
    parent = os.getppid()
    die_with_parent(parent)
    rank = int(os.environ["RANK"])
    area = ProgressArea.attach(area_path)
    progress = area.writer(rank)
    progress.begin()
    try:
        launch = read_launch(launch_path)
        _open_log(rank)
        progress.doing("starting")
        result = json.dumps(_run_body(launch, rank, progress))
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is reported)
        _leave(error, progress)
    progress.finish()
    return result


def _run_body(launch: Launch, rank: int, progress: Progress) -> Any:
    sys.path += launch.import_path
    device = _prepare_device(launch, rank)
    memory = MemoryMeter(device)
    if launch.memory_limit_bytes is not None:
        limit_memory(launch.memory_limit_bytes, device=device)
    module, _, name = launch.body.partition(":")
    body = getattr(import_module(module), name)
    result = body(launch.spec, Rank(rank, launch.ranks, progress, memory, device))
    _leave_group(progress)
    return result


def _prepare_device(launch: Launch, rank: int) -> str:
    import torch

    if launch.device == "cuda":
        index = rank % torch.cuda.device_count()
        torch.cuda.set_device(index)
        return f"cuda:{index}"
    if launch.threads is not None:
        torch.set_num_threads(launch.threads)
    return launch.device


def _leave_group(progress: Progress) -> None:
    """All together: a rank that leaves early would break what its peers still have to say."""
    from torch import distributed

    if distributed.is_initialized():
        progress.doing("leaving the process group")
        distributed.barrier()
        distributed.destroy_process_group()


def _leave(error: BaseException, progress: Progress) -> NoReturn:
    """Report, then end without running anything else: what broke may hang at exit."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    report = report_of(error)
    if isinstance(error, SystemExit):
        report["exit_code"] = error.code if isinstance(error.code, int) else _EXIT_CODE
    progress.fail(report)
    sys.stderr.write(report["trace"])
    if meaning_of(error) is Meaning.PEER_LOST:
        time.sleep(_LINGER_S)
    os._exit(report.get("exit_code") or _EXIT_CODE)


class _Tolerant(TextIOWrapper):
    """A stream that drops what cannot be written: a full disk must not change what a run finds out."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            pass


def log_name(rank: int) -> str:
    """File name of a rank's log."""
    return f"rank{rank}.log"


def _open_log(rank: int) -> None:
    """Send stdout and stderr of this process to its log, or nowhere if there is no place for it."""
    path = Path(os.environ["CHIMERA_RUN_LOGS"]) / log_name(rank)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError:
        descriptor = os.open(os.devnull, os.O_WRONLY)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    sys.stdout, sys.stderr = (
        _Tolerant(open(standard, "wb", buffering=0, closefd=False), line_buffering=True)  # noqa: SIM115
        for standard in (1, 2)
    )
