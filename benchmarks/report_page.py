"""How fast is the report of a large study, how much is transferred, and how smooth is its timeline?

    .venv/bin/python -P benchmarks/report_page.py [REPEATS]

Starts a service on an empty database, asks two studies and opens their pages in Chromium (apt-get install
chromium). Limits: the page of 2,048 devices is drawn in 1.5 s and transfers 3 MB, Plotly's script being in
the browser's cache; the report in one file has at most 8 MB; a timeline of 65,536 operations is drawn in
0.3 s, and again at every step of a zoom. Times stand beside a fixed piece of work, which tells a slow
change from a slow machine. Exits with 1 where a limit is not held.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page, ViewportSize, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
)
LARGE = {
    "model": "llama-3-70b", "cluster": "dgx-h100", "devices": 2048, "mini_batch_size": 55_440,
    "search": "exhaustive",
}  # fmt: skip
LONG = {
    "model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 1024,
    "schedules": "chimera", "depth": 32, "micro_batch_size": 1,
}  # fmt: skip
MOST_PAGE_S, MOST_TRANSFERRED, MOST_FILE, MOST_DRAW_S = 1.5, 3_000_000, 8_000_000, 0.3
ZOOMS = 12
VIEWPORT: ViewportSize = {"width": 1280, "height": 900}


@dataclass(frozen=True)
class Figure:
    """What was measured, and how much is allowed."""

    name: str
    value: float
    limit: float | None
    unit: str
    """s or MB."""


def main() -> int:
    """Print a row for each figure."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("no chromium on this machine: apt-get install chromium")
    reference_s = statistics.median(time_reference_loop() for _ in range(repeats))
    with served() as base, sync_playwright() as playwright, tempfile.TemporaryDirectory() as profile:
        options: dict[str, Any] = {"executable_path": chromium, "args": list(FLAGS)}
        # Of a profile on disk Chromium keeps scripts and what it compiled of them, as it does for people.
        people = playwright.chromium.launch_persistent_context(profile, viewport=VIEWPORT, **options)
        stranger = playwright.chromium.launch(**options).new_context(viewport=VIEWPORT)
        found = [*of_page(people, stranger, base, repeats=repeats), *of_timeline(people, base, repeats)]
    print(f"{'':58}{'measured':>12}{'limit':>10}{'x reference':>13}")
    print(f"{'reference loop (3 million additions)':58}{reference_s:10.3f} s{'':10}{1:13.2f}")
    for each in found:
        limit = "" if each.limit is None else f"{each.limit:g} {each.unit}"
        ratio = f"{each.value / reference_s:13.2f}" if each.unit == "s" else ""
        print(f"{each.name:58}{each.value:10.3f} {each.unit:2}{limit:>9}{ratio}")
    return int(any(each.limit is not None and each.value > each.limit for each in found))


def of_page(people: BrowserContext, stranger: BrowserContext, base: str, *, repeats: int) -> Iterator[Figure]:
    """The page of a study with thousands of rejected configurations, and the same in one file.

    `people` came here before, `stranger` has the scripts in its cache but compiles them again.
    """
    study = ask(base, LARGE)
    rejected = f"{len(study['plan']['rejected']):,} rejected"
    address, report = base + study["links"]["page"], base + study["links"]["report"]
    for _ in range(3):  # What Chromium compiled of a script it keeps from the third time on.
        open_page(people, address)
    loads = [open_page(people, address) for _ in range(repeats)]
    drawn = statistics.median(each.drawn_s for each in loads)
    yield Figure(f"page of 2,048 devices, {rejected}, drawn", drawn, MOST_PAGE_S, "s")
    busy = statistics.median(each.busy_s for each in loads)
    yield Figure("  of it the page's thread computes", busy, None, "s")
    open_page(stranger, address)
    loads_again = [open_page(stranger, address) for _ in range(repeats)]
    drawn = statistics.median(each.drawn_s for each in loads_again)
    yield Figure("  with Plotly's script compiled anew", drawn, None, "s")
    yield Figure("  transferred", loads[0].transferred / 1e6, MOST_TRANSFERRED / 1e6, "MB")
    yield Figure("  answered by the service", median_s(lambda: fetch(address), repeats), None, "s")
    yield Figure("report in one file", len(fetch(report)) / 1e6, MOST_FILE / 1e6, "MB")
    yield Figure("  answered by the service", median_s(lambda: fetch(report), repeats), None, "s")


def of_timeline(context: BrowserContext, base: str, repeats: int) -> Iterator[Figure]:
    """A timeline of 65,536 forwards and backwards: fetched, drawn, zoomed, alone and beside another."""
    study = ask(base, LONG)
    address, timeline = base + study["links"]["page"], base + study["links"]["timeline"]
    yield Figure("timeline of 65,536 operations, first simulated", timed(lambda: fetch(timeline)), None, "s")
    yield Figure("  kept by the service", median_s(lambda: fetch(timeline), repeats), None, "s")
    draws, zooms, whole = [], [], []
    for _ in range(repeats):
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector("html[data-drawn=true]")
        start = time.perf_counter()
        page.locator("#timeline").scroll_into_view_if_needed()
        page.wait_for_selector("#timeline-view[data-drawn=true]")
        whole.append(time.perf_counter() - start)
        draws.append(drawn_s(page))
        zooms += list(zoomed_s(page))
        page.close()
    yield Figure("  fetched, read and drawn", statistics.median(whole), None, "s")
    yield Figure("  first draw", statistics.median(draws), MOST_DRAW_S, "s")
    yield Figure("  draw at a step of a zoom, the slowest", max(zooms), MOST_DRAW_S, "s")
    yield Figure("  draw at a step of a zoom, median", statistics.median(zooms), None, "s")
    report = fetch(base + study["links"]["report"])
    yield Figure("  the report in one file", len(report) / 1e6, MOST_FILE / 1e6, "MB")


@dataclass(frozen=True)
class Load:
    """A page that was opened."""

    drawn_s: float
    busy_s: float
    """Processor time of the page's main thread."""
    transferred: int
    """Bytes, compressed as they came, without Plotly's script."""


def open_page(context: BrowserContext, address: str) -> Load:
    """From the address to drawn charts."""
    page = context.new_page()
    client = context.new_cdp_session(page)
    client.send("Network.enable")
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    plotly: set[str] = set()
    sizes: dict[str, int] = {}
    client.on(
        "Network.requestWillBeSent",
        lambda event: plotly.add(event["requestId"]) if "plotly.js" in event["request"]["url"] else None,
    )
    client.on(
        "Network.loadingFinished",
        lambda event: sizes.update({event["requestId"]: int(event["encodedDataLength"])}),
    )
    start = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.wait_for_selector("html[data-drawn=true]")
    drawn = time.perf_counter() - start
    metrics = {entry["name"]: entry["value"] for entry in client.send("Performance.getMetrics")["metrics"]}
    page.wait_for_load_state("networkidle")
    page.close()
    return Load(
        drawn, metrics["TaskDuration"], sum(size for name, size in sizes.items() if name not in plotly)
    )


def drawn_s(page: Page) -> float:
    """What the canvas says of its last drawing."""
    return float(page.locator("#timeline-canvas").get_attribute("data-milliseconds") or "nan") / 1e3


def zoomed_s(page: Page) -> Iterator[float]:
    """Every drawing of a zoom with the keyboard."""
    page.locator("#timeline-canvas").focus()
    for _ in range(ZOOMS):
        page.keyboard.press("+")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        yield drawn_s(page)


@contextmanager
def served() -> Iterator[str]:
    """The address of a service on an empty database."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CHIMERA_")}
        environment["CHIMERA_DATABASE_URL"] = f"sqlite:///{folder}/chimera.db"
        command = [sys.executable, "-P", "-m", "cli.main", "serve", "--port", "0", "--json"]
        with Path(folder, "log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
            try:
                told = process.stdout.readline() if process.stdout else ""
                yield json.loads(told)["url"]
            finally:
                process.terminate()
                process.communicate(timeout=60)


def ask(base: str, request: dict[str, Any]) -> dict[str, Any]:
    """A new study."""
    body, headers = json.dumps(request).encode(), {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{base}/v1/studies", data=body, headers=headers)
    with urllib.request.urlopen(asked) as answered:
        study: dict[str, Any] = json.load(answered)
    return study


def fetch(address: str) -> bytes:
    """What stands at an address, not compressed."""
    with urllib.request.urlopen(address) as answered:
        content: bytes = answered.read()
    return content


def median_s(action: Any, repeats: int) -> float:
    """Seconds that it takes as a rule."""
    return statistics.median(timed(action) for _ in range(repeats))


def timed(action: Any) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def time_reference_loop() -> float:
    """Seconds for work that no change of ours can make faster or slower."""
    start_s = time.perf_counter()
    total = 0
    for number in range(3_000_000):
        total += number
    return time.perf_counter() - start_s


if __name__ == "__main__":
    sys.exit(main())
