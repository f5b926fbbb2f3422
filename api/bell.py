"""How does a request that waits learn that there may be something now? A bell that any thread can ring."""

import asyncio
from contextlib import suppress
from threading import RLock


class Bell:
    """Wakes the requests that wait in this process; what other processes add, waiters find by looking."""

    def __init__(self) -> None:
        # A signal's handler may close the bell while its thread is in here.
        self._lock = RLock()
        self._waiting: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self.closed = False
        """Whether the service is about to stop, and nobody should wait any longer."""

    def ring(self) -> None:
        """Wake everyone who listens now."""
        with self._lock:
            waiting = list(self._waiting.items())
        for event, loop in waiting:
            # A loop that was closed has nobody left to wake.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)

    def close(self) -> None:
        """Let nobody wait any longer."""
        self.closed = True
        self.ring()

    def listen(self) -> asyncio.Event:
        """Listen from now on, before looking: what rings in between is not missed. Ends with `leave`."""
        event = asyncio.Event()
        with self._lock:
            self._waiting[event] = asyncio.get_running_loop()
        return event

    def leave(self, event: asyncio.Event) -> None:
        """Listen no longer."""
        with self._lock:
            self._waiting.pop(event, None)


async def wait_for_ring(event: asyncio.Event, *, most_s: float) -> None:
    """Wait until the bell rings, or `most_s` seconds; afterwards the event can be waited for again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await event.wait()
    event.clear()
