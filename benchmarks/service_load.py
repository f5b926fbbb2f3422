"""What does the service bear, on both databases, beside an empty route of the same framework?

    .venv/bin/python -P benchmarks/service_load.py [SECONDS]

Requests come at fixed times from this process, on the same machine; a latency counts from when one is due.
Reads are of one study of bert-48 on 32 devices, plans are of the same question with another mini-batch and
margin each, which no cache could answer. Limits on a quiet machine with two cores, in 60 s each: 200 reads/s
with 95 % within 50 ms; 5 plans/s with 95 % within 400 ms; no error. Then memory over 10,000 requests, and
studies posted while the service is killed: none that was accepted may be lost. CPU and memory are of the
service and the processes that compute for it; CPU for each request, beside that of the empty route. With
CHIMERA_WORK_IN=threads plans are computed in the service itself.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.load.generator import Address, Ask, Connections, Heard, at_rate, one_after_another
from benchmarks.load.processes import Asked, Site, sites, start_empty

READS_PER_S, PLANS_PER_S, STUDIES_PER_S = 200.0, 5.0, 4.0
MANY, WARM = 10_000, 2_000
BERT: dict[str, Any] = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}


def main() -> None:
    """Print a row for each load."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    with tempfile.TemporaryDirectory() as folder, sites() as found:
        print(
            f"{'':34}{'p50 ms':>8}{'p95 ms':>8}{'max ms':>8}{'errors':>8}{'CPU ms':>8}{'x empty':>9}",
            flush=True,
        )
        empty = start_empty(Path(folder))
        asyncio.run(one_after_another(empty.address, lambda _: ("GET", "/", None), count=500, at_once=4))
        reference = _measured(
            empty, "empty route, 200/s", {"/": (lambda _: ("GET", "/", None), READS_PER_S)}, seconds=seconds
        )
        empty.kill()
        for name, site in found.items():
            _bear(name, site, seconds=seconds, reference=reference)


def _bear(name: str, site: Site, *, seconds: float, reference: float) -> None:
    asked = site.start()
    study = asyncio.run(_make_study(asked.address, "first"))
    read: Ask = lambda _: ("GET", f"/v1/studies/{study}", None)  # noqa: E731
    asyncio.run(one_after_another(asked.address, read, count=200, at_once=4))
    asyncio.run(one_after_another(asked.address, _plan, count=5, at_once=1))
    reads, plans = {"reads": (read, READS_PER_S)}, {"plans": (_plan, PLANS_PER_S)}
    for what, loads in (("reads, 200/s", reads), ("plans, 5/s", plans), ("both at once", reads | plans)):
        _measured(asked, f"{name}: {what}", loads, seconds=seconds, reference=reference)
    print(f"{name}: {_growth(asked, read)}", flush=True)
    print(f"{name}: {asyncio.run(_killed(site, asked, seconds=min(20.0, seconds)))}", flush=True)


def _plan(number: int) -> tuple[str, str, dict[str, Any]]:
    """A question that was not asked before."""
    changed = {"mini_batch_size": 32 * (8 + number % 48), "margin": 0.05 + 1e-6 * number}
    return "POST", "/v1/plans", BERT | changed


def _measured(
    asked: Asked,
    label: str,
    loads: dict[str, tuple[Ask, float]],
    *,
    seconds: float,
    reference: float | None = None,
) -> float:
    """Put loads on a process together, print a row for each, and return its CPU seconds for each request."""

    async def run() -> list[Heard]:
        started = [at_rate(asked.address, ask, per_s=rate, seconds=seconds) for ask, rate in loads.values()]
        return list(await asyncio.gather(*started))

    before_s = asked.cpu_s()
    heard = asyncio.run(run())
    each_s = (asked.cpu_s() - before_s) / sum(len(load.latencies_s) for load in heard)
    for name, load in zip(loads, heard, strict=True):
        row = f"{label}{f' ({name})' if len(loads) > 1 else ''}"
        times = f"{load.percentile_ms(0.5):8.1f}{load.percentile_ms(0.95):8.1f}{load.percentile_ms(1):8.1f}"
        ratio = f"{each_s / reference:9.1f}" if reference else f"{1:9.1f}"
        print(f"{row:34}{times}{load.errors:8}{1e3 * each_s:8.2f}{ratio}", flush=True)
    return each_s


def _growth(asked: Asked, read: Ask) -> str:
    """What memory does over many requests, most of them reads."""

    def mixed(number: int) -> tuple[str, str, dict[str, Any] | None]:
        return _plan(number + 10_000) if number % 500 == 0 else read(number)

    asyncio.run(one_after_another(asked.address, mixed, count=WARM, at_once=4))
    before = asked.memory_bytes()
    heard = asyncio.run(one_after_another(asked.address, mixed, count=MANY, at_once=4))
    after = asked.memory_bytes()
    return (
        f"{before / 1e6:.1f} MB after {WARM:,} requests, {(after - before) / 1e6:+.1f} MB after {MANY:,} "
        f"more, {heard.errors} errors"
    )


async def _killed(site: Site, asked: Asked, *, seconds: float) -> str:
    """Post studies at a rate, kill the service halfway and start it again; clients repeat what failed."""
    accepted: dict[str, str] = {}
    running = [asked]

    async def post(number: int) -> None:
        accepted[f"load-{number}"] = await _persist(
            lambda: _make_study(running[-1].address, f"load-{number}")
        )

    count = int(seconds * STUDIES_PER_S)
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            if number == count // 2:
                running[-1].kill()
                running.append(await asyncio.to_thread(site.start, port=asked.address.port))
            group.create_task(post(number))
            await asyncio.sleep(1 / STUDIES_PER_S)
    address, connections = running[-1].address, Connections(running[-1].address)
    statuses = [
        (await connections.ask(address.message("GET", f"/v1/studies/{study}", None)))[0]
        for study in accepted.values()
    ]
    connections.close()
    running[-1].kill()
    lost = sum(status != 200 for status in statuses)
    double = len(accepted) - len(set(accepted.values()))
    return f"{count} studies posted around a kill -9: {len(accepted)} accepted, {lost} lost, {double} shared"


async def _persist(ask: Callable[[], Awaitable[str]], *, for_s: float = 150.0) -> str:
    """Repeat until it is answered: a key that was held by the killed process is free after a minute."""
    end_s = time.perf_counter() + for_s
    while True:
        try:
            return await ask()
        except (OSError, EOFError):
            if time.perf_counter() > end_s:
                raise
            await asyncio.sleep(1)


async def _make_study(address: Address, key: str) -> str:
    """The id of a study, made under an Idempotency-Key."""
    connections = Connections(address)
    message = address.message("POST", "/v1/studies", BERT, **{"Idempotency-Key": key})
    status, content = await connections.ask(message)
    connections.close()
    if status != 201:
        raise OSError(f"{status} {content[:200]!r}")
    return str(json.loads(content)["id"])


if __name__ == "__main__":
    main()
