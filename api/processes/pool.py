"""A few processes that compute, one call each at a time; what ends one of them costs that call alone."""

import logging
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, LifoQueue
from threading import Lock
from typing import Any

from api.computing import wire
from api.computing.result import Result
from api.operations import metrics
from api.processes.child import Child, DiedError, LateError
from api.web.deadline import Deadline, current_deadline
from api.web.problems import UnavailableProblem

TRIES = 2
"""Once a process may die of something else; who is killed for what was asked dies again."""
RETRY_S = 5

logger = logging.getLogger("chimera.api")


class DiedProblem(UnavailableProblem):
    """Every process died that was asked this."""


class Pool:
    """Processes are started when they are needed, and the one that answered last is asked first."""

    def __init__(self, *, at_once: int) -> None:
        self._places: LifoQueue[Child | None] = LifoQueue()
        """Who holds a place may ask the process that is there, or start one."""
        for _ in range(at_once):
            self._places.put(None)
        self._lock = Lock()
        self._started: set[Child] = set()
        self._closed = False

    @property
    def processes(self) -> set[int]:
        """The numbers of those that are there."""
        return {child.pid for child in set(self._started) if child.is_there}

    def begin(self) -> None:
        """Start the first process."""
        with suppress(Empty):
            self._put_back(self._places.get_nowait())

    def call(self, work: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """What `work` returns or raises in another process.

        Raises TimeoutProblem when the time of the request is over, whose process is ended; UnavailableProblem
        where the service stops, or no process can be started; DiedProblem.
        """
        message, name, deadline = wire.pack(work, *arguments, **named), wire.name_of(work), current_deadline()
        child = self._take_place(deadline)
        try:
            for _ in range(TRIES):
                child = child if child is not None and child.is_there else self._start()
                with suppress(DiedError):
                    head, content = self._ask(child, message, name=name, deadline=deadline)
                    return wire.read_answer(head, content)
        finally:
            self._put_back(child)
        raise DiedProblem(
            f"the process that computed this was ended before it was done, {TRIES} times in a row, as when "
            "memory runs out: ask for less, or again later; the log of the service tells how it ended",
            headers={"Retry-After": str(RETRY_S)},
        )

    def close(self) -> None:
        """End all processes, whatever they do, and start none any more."""
        with self._lock:
            self._closed = True
            for child in self._started:
                child.kill()

    def _ask(self, child: Child, message: bytes, *, name: str, deadline: Deadline) -> tuple[bytes, bytes]:
        try:
            return child.ask(message, within_s=deadline.left_s())
        except LateError:
            self._note_end(child, "late", f"{name} was not done after {deadline.seconds:,g} s")
            raise deadline.problem() from None
        except DiedError:
            self._note_end(child, "died", f"it was asked for {name}")
            raise

    def _take_place(self, deadline: Deadline) -> Child | None:
        try:
            return self._places.get(timeout=max(0.0, deadline.left_s()))
        except Empty:
            raise deadline.problem() from None

    def _put_back(self, child: Child | None) -> None:
        """Give the place back, with a process for who comes next."""
        if child is None or not child.is_there:
            child = None
            with suppress(UnavailableProblem):
                child = self._start()
        self._places.put(child)

    def _start(self) -> Child:
        with self._lock:
            if self._closed:
                raise _unavailable("the service is stopping: ask the next one")
            try:
                made = Child()
            except OSError as error:
                logger.error("no process can be started that computes: %s", error)
                raise _unavailable(
                    f"no process can be started that computes this: {error.strerror}; try again later"
                ) from None
            self._started = {child for child in self._started if child.is_there} | {made}
            return made

    def _note_end(self, child: Child, reason: str, why: str) -> None:
        if not self._closed:
            metrics.COMPUTING_ENDED.labels(reason).inc()
            logger.warning("process %d that computes ended with %s: %s", child.pid, child.how_it_ended, why)


def _unavailable(detail: str) -> UnavailableProblem:
    return UnavailableProblem(detail, headers={"Retry-After": str(RETRY_S)})
