"""How much is worked on at once? Expensive calls take turns; where too many wait the next is sent away."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Lock
from typing import Any, TypeVar

from api.web.deadline import current_deadline
from api.web.problems import UnavailableProblem

RETRY_S = 5

Made = TypeVar("Made")


class Effort:
    """A few threads for what takes long, so that the others are free to answer what does not."""

    def __init__(self, *, at_once: int, waiting: int) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="effort")
        self._most, self._lock = at_once + waiting, Lock()
        self.there = 0
        """Calls that are worked on or wait."""

    async def run(self, work: Callable[[], Made]) -> Made:
        """What `work` returns or raises, when its turn has come; raises UnavailableProblem at once if not."""
        with self._lock:
            if self.there >= self._most:
                raise _busy(f"{self.there:,} expensive calls are being answered or wait: try again")
            self.there += 1
        deadline, context = current_deadline(), copy_context()

        def begin() -> Made:
            deadline.check()
            return context.run(work)

        try:
            future = self._threads.submit(begin)
        except RuntimeError:
            self._leave()
            raise _busy("the service is stopping: ask the next one") from None
        future.add_done_callback(self._leave)
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _leave(self, _: "Future[Any] | None" = None) -> None:
        with self._lock:
            self.there -= 1


def _busy(detail: str) -> UnavailableProblem:
    return UnavailableProblem(detail, headers={"Retry-After": str(RETRY_S)})
