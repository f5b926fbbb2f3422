"""How does one ask what may never answer? In a thread of its own, and without waiting for long."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class Inquiry(Generic[Answer]):
    """A question that is asked once at a time, whoever wants to know; who comes meanwhile gets that answer.

    The threads that answer requests may all wait for the database. Its own does not depend on them, and does
    not keep the process from ending.
    """

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._ask = ask
        self._pending: Future[Answer] | None = None

    async def answer(self, *, most_s: float) -> Answer:
        """What `ask` returns or raises; TimeoutError after `most_s` seconds, while it goes on."""
        if self._pending is None or self._pending.done():
            self._pending = Future()
            Thread(target=self._run, args=(self._pending,), name="inquiry", daemon=True).start()
        return await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._pending)), most_s)

    def _run(self, pending: Future[Answer]) -> None:
        try:
            pending.set_result(self._ask())
        except BaseException as error:  # noqa: BLE001  # whoever waits gets it
            pending.set_exception(error)
