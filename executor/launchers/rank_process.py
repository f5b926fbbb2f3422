"""What does the process of one rank do around the work itself? It prepares, calls the body, and reports.

There are two for each rank: the one that torch's agent started forks another that works, waits for it and
writes down how it ended, whatever ended it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn, cast

from executor.heap import keep_freed_memory
from executor.launchers.failure import Meaning, report_of
from executor.launchers.launch import Launch, read_launch
from executor.launchers.peak_memory import MemoryMeter, limit_memory
from executor.launchers.processes import die_with_parent
from executor.launchers.progress import Progress, ProgressArea

_LINGER_S = 2.0
"""So long a rank that lost a peer stays: its exit ends the others, which may have more to say."""
_EXIT_CODE = 1
_CHUNK_BYTES = 1 << 16


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
    has_own_device: bool = False
    """Whether no other rank computes on this CUDA device."""


def rank_main(launch_path: str, area_path: str) -> str:
    """Run the body of the rank that the variable RANK names in a child; its result as a JSON text.

    This process ends as the child did if that was not well.
    """
    die_with_parent(os.getppid())
    rank, area = int(os.environ["RANK"]), ProgressArea.attach(area_path)
    progress, keeper = area.writer(rank), os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        die_with_parent(keeper)
        _work(launch_path, rank, progress, result=writing)
    os.close(writing)
    result = _collect(child, reading)
    _, status = os.waitpid(child, 0)
    progress.end(status)
    if status:
        _end_like(status)
    return result.decode()


def _collect(child: int, reading: int) -> bytes:
    """What the child writes until it ends; processes that it left behind may still have the pipe open."""
    parts: list[bytes] = []
    exited = os.pidfd_open(child)
    while True:
        ready, _, _ = select.select([reading, exited], [], [])
        part = os.read(reading, _CHUNK_BYTES) if reading in ready else b""
        parts.append(part)
        if not part:
            return b"".join(parts)


def _end_like(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) or _EXIT_CODE)


def _work(launch_path: str, rank: int, progress: Progress, *, result: int) -> NoReturn:
    """The life of the process that works. It ends without Python's exit, in which what broke may hang."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    progress.begin()
    try:
        launch = read_launch(launch_path)
        _open_log(rank)
        progress.doing("starting")
        answer = json.dumps(_run_body(launch, rank, progress)).encode()
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is reported)
        _leave(error, progress)
    progress.finish()
    sys.stdout.flush()
    with open(result, "wb") as pipe:
        pipe.write(answer)
    os._exit(0)


def _run_body(launch: Launch, rank: int, progress: Progress) -> Any:
    sys.path += launch.import_path
    device = _prepare_device(launch)
    memory = MemoryMeter(device)
    if launch.memory_limit_bytes is not None:
        limit_memory(launch.memory_limit_bytes, device=device)
    module, _, name = launch.body.partition(":")
    body = getattr(import_module(module), name)
    own = launch.device == "cuda" and _has_own_device(launch)
    result = body(launch.spec, Rank(rank, launch.ranks, progress, memory, device, own))
    _leave_group(progress)
    return result


def _prepare_device(launch: Launch) -> str:
    import torch

    if launch.device == "cuda":
        if not torch.cuda.device_count():
            raise RuntimeError(
                "torch sees no CUDA device here: is it built for it, and does CUDA_VISIBLE_DEVICES name one?"
            )
        index = int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count()
        torch.cuda.set_device(index)
        return f"cuda:{index}"
    if launch.threads is not None:
        torch.set_num_threads(launch.threads)
    keep_freed_memory()
    return launch.device


def _has_own_device(launch: Launch) -> bool:
    import torch

    return launch.apart or torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])


def _leave_group(progress: Progress) -> None:
    """All together: a rank that leaves early would break what its peers still have to say."""
    from torch import distributed

    if distributed.is_initialized():
        progress.doing("leaving the process group")
        progress.wait()
        distributed.barrier()
        distributed.destroy_process_group()


def _leave(error: BaseException, progress: Progress) -> NoReturn:
    report = report_of(error)
    if isinstance(error, SystemExit):
        report["exit_code"] = error.code if isinstance(error.code, int) else _EXIT_CODE
    progress.fail(report)
    sys.stderr.write(report["trace"])
    sys.stderr.flush()
    if report["meaning"] == Meaning.PEER_LOST:
        time.sleep(_LINGER_S)
    os._exit(report.get("exit_code") or _EXIT_CODE)


def log_name(rank: int) -> str:
    """File name of a rank's log."""
    return f"rank{rank}.log"


def _open_log(rank: int) -> None:
    """Send stdout and stderr of this process to its log, or nowhere if there is no place for it."""
    path = Path(os.environ["CHIMERA_RUN_LOGS"]) / log_name(rank)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        descriptor = os.open(os.devnull, os.O_WRONLY)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    os.close(descriptor)
    sys.stdout, sys.stderr = (_log_stream(standard) for standard in (1, 2))


class _Tolerant(FileIO):
    """Drops what cannot be written: a full disk must not change what a run finds out."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or len(data)
        except OSError:
            return len(data)


def _log_stream(descriptor: int) -> TextIOWrapper:
    stream = cast("Any", _Tolerant(descriptor, "wb", closefd=False))
    return TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", line_buffering=True)
