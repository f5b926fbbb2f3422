"""How long do answers take when requests come at fixed times, whether or not the ones before are answered?"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

IDLE_S = 2.0
"""Connections that were idle for longer are not used again: servers close them, uvicorn after 5 s."""

Ask = Callable[[int], tuple[str, str, dict[str, Any] | None]]
"""The request of a number: method, path and body."""


@dataclass(frozen=True)
class Address:
    """Whom to ask, and with which key."""

    port: int
    key: str | None = None

    def message(self, method: str, path: str, body: dict[str, Any] | None, **headers: str) -> bytes:
        """A request as it is sent."""
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += [f"Content-Length: {len(content)}", "Content-Type: application/json"] if content else []
        lines += [f"Authorization: Bearer {self.key}"] if self.key else []
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + content


@dataclass
class Heard:
    """What came back."""

    latencies_s: list[float] = field(default_factory=list)
    """From the moment a request was due to its answer's last byte."""
    statuses: Counter[int] = field(default_factory=Counter)
    """0 where there was no answer."""

    def percentile_ms(self, share: float) -> float:
        """So many of the answers took at most this long."""
        ranked = sorted(self.latencies_s)
        return 1e3 * ranked[min(len(ranked) - 1, int(share * len(ranked)))]

    @property
    def errors(self) -> int:
        """Requests that were not answered well."""
        return sum(count for status, count in self.statuses.items() if not 200 <= status < 300)


class Connections:
    """Connections that are kept open; who finds none idle opens another."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: list[tuple[float, asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def ask(self, message: bytes) -> tuple[int, bytes]:
        """Send a request and read its answer; raises OSError or EOFError where there is none."""
        while self._idle:
            since, reader, writer = self._idle.pop()
            if time.perf_counter() - since < IDLE_S:
                break
            writer.close()
        else:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.address.port)
        try:
            writer.write(message)
            head = await reader.readuntil(b"\r\n\r\n")
            content = await reader.readexactly(_length(head))
        except BaseException:
            writer.close()
            raise
        self._idle.append((time.perf_counter(), reader, writer))
        return int(head[9:12]), content

    def close(self) -> None:
        """Close what is idle."""
        for *_, writer in self._idle:
            writer.close()
        self._idle.clear()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


async def at_rate(address: Address, ask: Ask, *, per_s: float, seconds: float) -> Heard:
    """Send requests at fixed times; each one's latency counts from when it was due."""
    heard, connections = Heard(), Connections(address)
    begin = time.perf_counter() + 0.1

    async def send(number: int, due_s: float) -> None:
        message = address.message(*ask(number))
        await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
        try:
            status, _ = await connections.ask(message)
        except (OSError, EOFError):
            status = 0
        heard.statuses[status] += 1
        heard.latencies_s.append(time.perf_counter() - due_s)

    async with asyncio.TaskGroup() as group:
        for number in range(int(per_s * seconds)):
            due_s = begin + number / per_s
            # Tasks are made half a second ahead: all at once would be made while the first wait.
            await asyncio.sleep(max(0.0, due_s - 0.5 - time.perf_counter()))
            group.create_task(send(number, due_s))
    connections.close()
    return heard


async def one_after_another(address: Address, ask: Ask, *, count: int, at_once: int) -> Heard:
    """Send `count` requests as fast as they are answered, `at_once` at a time."""
    heard, connections = Heard(), Connections(address)
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            start_s = time.perf_counter()
            status, _ = await connections.ask(address.message(*ask(number)))
            heard.statuses[status] += 1
            heard.latencies_s.append(time.perf_counter() - start_s)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    connections.close()
    return heard
