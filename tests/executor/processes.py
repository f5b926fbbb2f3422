"""How does a test run a function on several ranks, and see the first that failed?

    def total(rank: int, world_size: int, number: int) -> float:      # at module level, importable
        value = torch.full((1,), float(rank + number))
        dist.all_reduce(value)
        return value.item()

    assert run_ranks(2, total, 10) == [21.0, 21.0]

Every rank is a process with one thread and a gloo process group over the loopback interface; warnings are
errors there too. Arguments and results are pickled, tensors by value. `Ranks` keeps the processes for several
calls, `run_ranks` is one call. After a failure or at the timeout everything is killed, and RanksFailedError
says what each rank reported.
"""

import gc
import os
import pickle
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import connection, get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

DEFAULT_TIMEOUT_S = 120.0
GRACE_S = 10.0
"""How long the other ranks may take to report after the first failure."""

_PRELOADED = [
    "torch._dynamo",  # with the first optimizer, for a second
    "executor.running.pipeline",
    "tests.executor.equivalence",
    "tests.executor.processes",
]
"""What every rank would have to load else."""


class RanksFailedError(AssertionError):
    """One or more ranks failed; `failures` has the traceback, exit code or signal of each, by rank."""

    def __init__(self, failures: dict[int, str], first: int) -> None:
        others = [f"rank {rank}: {_last_line(text)}" for rank, text in failures.items() if rank != first]
        super().__init__("\n".join([f"rank {first} failed first: {failures[first]}", *others]))
        self.failures = failures
        self.first = first


class Ranks:
    """Processes of one gloo group that run function after function; started when first used."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []
        self._store: Any = None

    def run(self, function: Callable[..., Any], *args: Any, timeout: float = DEFAULT_TIMEOUT_S) -> list[Any]:
        """The results of function(rank, world_size, *args) of every rank, in order.

        Raises RanksFailedError after killing all ranks; the next run starts new ones.
        """
        until = time.monotonic() + timeout
        if not self._processes:
            self._start(timeout)
        try:
            task = pickle.dumps((function, args))
            for pipe in self._pipes:
                pipe.send_bytes(task)
            return self._collect(until)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill what still runs."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        for pipe in self._pipes:
            pipe.close()
        self._processes, self._pipes, self._store = [], [], None

    def end(self, timeout: float = DEFAULT_TIMEOUT_S) -> list[int]:
        """Let every rank leave by itself, and give the exit codes."""
        for pipe in self._pipes:
            pipe.send_bytes(b"")
        for process in self._processes:
            process.join(timeout)
        codes = [-1 if process.exitcode is None else process.exitcode for process in self._processes]
        self.close()
        return codes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, timeout: float) -> None:
        from torch.distributed import TCPStore  # type: ignore[attr-defined] # documented, not in __all__

        context = get_context("forkserver")
        context.set_forkserver_preload(_PRELOADED)
        self._store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        for rank in range(self.world_size):
            here, there = context.Pipe()
            arguments = (rank, self.world_size, self._store.port, timeout, there)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            there.close()
            self._processes.append(process)
            self._pipes.append(here)

    def _collect(self, until: float) -> list[Any]:
        results: dict[int, Any] = {}
        failures: dict[int, str] = {}
        first: int | None = None
        waiting = dict(enumerate(self._pipes))
        while waiting:
            ready = connection.wait(list(waiting.values()), max(0.0, until - time.monotonic()))
            if not ready:
                failures |= dict.fromkeys(waiting, "no answer in time")
                break
            for rank in [rank for rank, pipe in waiting.items() if pipe in ready]:
                kind, value = self._answer(rank, waiting.pop(rank))
                if kind == "result":
                    results[rank] = value
                    continue
                failures[rank] = value
                # A rank that died without a word is the reason why others lost their connections.
                if first is None or (kind == "died" and not failures[first].startswith("died")):
                    until = min(until, time.monotonic() + GRACE_S) if first is None else until
                    first = rank
        if failures:
            raise RanksFailedError(failures, min(failures) if first is None else first)
        return [results[rank] for rank in range(self.world_size)]

    def _answer(self, rank: int, pipe: Connection) -> tuple[str, Any]:
        try:
            answer: tuple[str, Any] = pickle.loads(pipe.recv_bytes())
        except (EOFError, ConnectionResetError):
            self._processes[rank].join(GRACE_S)
            code = self._processes[rank].exitcode
            return (
                "died",
                f"died with exit code {code}" if code is None or code >= 0 else f"died by signal {-code}",
            )
        return answer


def run_ranks(
    world_size: int, function: Callable[..., Any], *args: Any, timeout: float = DEFAULT_TIMEOUT_S
) -> list[Any]:
    """The results of function(rank, world_size, *args) of every rank of a fresh group, in order of rank.

    Raises RanksFailedError after killing all ranks, also where one does not leave with exit code 0.
    """
    with Ranks(world_size) as ranks:
        results = ranks.run(function, *args, timeout=timeout)
        codes = ranks.end()
    wrong = {rank: f"left with exit code {code}" for rank, code in enumerate(codes) if code}
    if wrong:
        raise RanksFailedError(wrong, min(wrong))
    return results


def _serve(rank: int, world_size: int, port: int, timeout: float, pipe: Connection) -> None:
    """What a rank does: join the group, then run what is sent until an empty message comes."""
    import torch
    import torch.distributed as dist
    from torch.distributed import TCPStore  # type: ignore[attr-defined] # documented, not in __all__

    warnings.simplefilter("error")
    gc.freeze()  # to look through torch takes a tenth of a second at every collection
    torch.set_num_threads(1)
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    try:
        store = TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=timeout))
        limit = timedelta(seconds=timeout)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=limit)
        while task := pipe.recv_bytes():
            function, args = pickle.loads(task)
            pipe.send_bytes(pickle.dumps(("result", function(rank, world_size, *args))))
            _let_go_of_groups()
    except EOFError:
        return  # the test has gone
    except Exception:  # noqa: BLE001 (whatever a test raises is reported)
        pipe.send_bytes(pickle.dumps(("error", traceback.format_exc())))
        raise SystemExit(1) from None
    if dist.is_initialized():
        dist.destroy_process_group()


def _let_go_of_groups() -> None:
    """Those that a call has made: each has a thread that wakes up a hundred times a second."""
    import torch.distributed as dist
    from torch.distributed import distributed_c10d

    for group in list(distributed_c10d._world.pg_map):
        if group is not dist.group.WORLD:
            dist.destroy_process_group(group)


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1]
