"""How long may an answer take? After that the client hears so, and what was being made is not kept."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from threading import Lock
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.web.problems import Problem, TimeoutProblem


class Deadline:
    """The time that is left for a request. It ends in time, with what it stores, or late, with nothing.

    Threads cannot be stopped: one that comes late finds out where it would begin to store.
    """

    def __init__(self, seconds: float) -> None:
        self._lock = Lock()
        self._until = time.monotonic() + seconds
        self._stores = self._late = False
        self.seconds = seconds

    def extend(self, seconds: float) -> None:
        """Allow for waiting that the client asked for."""
        self._until += seconds
        self.seconds += seconds

    def left_s(self) -> float:
        """Seconds until then."""
        return self._until - time.monotonic()

    def check(self) -> None:
        """Raise TimeoutProblem when it is late."""
        if self._late:
            raise self.problem()

    def begin_to_store(self) -> None:
        """From now on the request is waited for; raises TimeoutProblem when it is late."""
        with self._lock:
            self.check()
            self._stores = True

    def end(self) -> bool:
        """Say that it is late; False where something is being stored, which is waited for."""
        with self._lock:
            self._late = not self._stores
            return self._late

    def problem(self) -> TimeoutProblem:
        """What the client hears."""
        return TimeoutProblem(
            f"no answer within {self.seconds:,g} s, and nothing was stored: try again when the service is "
            "less busy, or ask for less",
            headers={"Retry-After": "10"},
        )


_UNLIMITED = 365 * 86_400.0
_deadline: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def current_deadline() -> Deadline:
    """That of the request being answered; one far away where there is none."""
    return _deadline.get() or Deadline(_UNLIMITED)


class Deadlines:
    """Middleware that answers in place of what takes too long to begin its answer."""

    def __init__(self, app: ASGIApp, *, seconds: float, respond: Callable[[Problem], ASGIApp]) -> None:
        self.app, self.seconds, self.respond = app, seconds, respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and answer when it is late; what comes after that goes nowhere."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        deadline = Deadline(self.seconds)
        _deadline.set(deadline)

        async def tell() -> None:
            await self.respond(deadline.problem())(scope, receive, send)

        watch = _Watch(deadline, tell)

        async def send_in_time(message: Message) -> None:
            if not watch.gave_up:
                watch.end()
                await send(message)

        try:
            # A client that went away while it sent its body needs no answer.
            with suppress(ClientDisconnect):
                await self.app(scope, receive, send_in_time)
        finally:
            watch.end()


class _Watch:
    """Looks whether it is late, and tells once."""

    def __init__(self, deadline: Deadline, tell: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._deadline, self._tell = deadline, tell
        self._loop = asyncio.get_running_loop()
        self._telling: asyncio.Task[None] | None = None
        self._alarm = self._loop.call_later(deadline.left_s(), self._look)

    @property
    def gave_up(self) -> bool:
        """Whether the client was told that it is late."""
        return self._telling is not None

    def end(self) -> None:
        """Look no more: the answer begins."""
        self._alarm.cancel()

    def _look(self) -> None:
        if self._deadline.left_s() > 0:
            self._alarm = self._loop.call_later(self._deadline.left_s(), self._look)
        elif self._deadline.end():
            self._telling = self._loop.create_task(self._tell())
