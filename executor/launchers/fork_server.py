"""How does the agent get the process that ranks are forked from? It forks itself as soon as torch is loaded.

multiprocessing would start it as a new interpreter, which loads torch once more: 1.3 s of a processor, a
third of what a launch of two ranks costs.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker, util
from typing import Any, NoReturn

from executor.launchers.processes import die_with_parent


class _InTheForkError(BaseException):
    """Raised in the new process, where what its parent goes on with has to be left and let go of."""

    def __init__(self, statement: str, descriptors: Sequence[int]) -> None:
        super().__init__(statement)
        self.statement = statement
        self.kept = {descriptor: os.dup(descriptor) for descriptor in descriptors}
        """Copies, since leaving closes the others."""


def start_fork_server() -> None:
    """Fork multiprocessing's server. Nothing else may run in this process yet, and no lock may be held.

    Where a Python starts its server in another way, it has it load by itself what ranks need.
    """
    multiprocessing.set_forkserver_preload(["executor.launchers.preload"])
    resource_tracker.ensure_running()  # a new interpreter, as usual: it outlives all others
    parent, usual, forked = os.getpid(), util.spawnv_passfds, None
    util.spawnv_passfds = _fork
    try:
        forkserver.ensure_running()
    except _InTheForkError as error:
        forked = error
    finally:
        util.spawnv_passfds = usual
    if forked is not None:
        _serve(forked, parent)


def _fork(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:  # noqa: ARG001 (a name of its own)
    """What `python -c STATEMENT` would do, in a fork: `args` end with the statement."""
    child = os.fork()
    if child == 0:
        raise _InTheForkError(args[-1], passfds)
    return child


def _serve(forked: _InTheForkError, parent: int) -> NoReturn:
    """The life of the server; it is a fork itself to each rank, which ends without coming back here."""
    try:
        die_with_parent(parent)
        for descriptor, copy in forked.kept.items():
            os.dup2(copy, descriptor)
            os.close(copy)
        with suppress(SystemExit):
            exec(forked.statement, {})  # noqa: S102 (multiprocessing's own words)
    finally:
        os._exit(0)
