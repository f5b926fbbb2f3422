"""What do browser tests share? A service in a process of its own, and what a person does on its pages."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
ROOT = Path(__file__).parents[2]
ATTACK = '"><img src=x onerror="document.title=1"><script>document.title=1</script>'
"""What would change the title, were it not shown as text."""
CONFIG = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8,
    "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000, "max_position_embeddings": 512,
}  # fmt: skip

SUBMIT = """async (body) => {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch("/v1/studies", { method: "POST", headers, body: JSON.stringify(body) });
  return (await answer.json()).links.page;
}"""
"""Makes a study and gives the address of its page."""

expect.set_options(timeout=30_000)  # as long as the browser itself waits for what a busy machine draws


@dataclass
class Visit:
    """A page of the service in a browser, and what went wrong on it."""

    page: Page
    base: str
    faults: list[str] = field(default_factory=list)

    def open(self, path: str = "/") -> Page:
        """Go there and wait until everything is loaded."""
        self.page.goto(self.base + path, wait_until="networkidle")
        return self.page

    def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )


def screenshots() -> Path:
    """Where pictures of pages are kept, for people and CI to look at."""
    folder = Path(os.environ.get("SCREENSHOT_FOLDER", ROOT / "test-results" / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def serving(folder: Path) -> Iterator[str]:
    """The address of a service in a process of its own, on the database in a folder, as long as it runs."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CHIMERA_")}
    environment["CHIMERA_DATABASE_URL"] = f"sqlite:///{folder}/chimera.db"
    environment["CHIMERA_REQUIRE_KEYS"] = "false"
    command = [sys.executable, "-P", "-m", "cli.main", "serve", "--port", "0", "--json"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            told = process.stdout.readline() if process.stdout else ""
            assert told, (folder / "log").read_text()
            yield json.loads(told)["url"]
        finally:
            process.terminate()
            process.communicate(timeout=60)


@contextmanager
def offline(browser: Browser, file: Path, **options: Any) -> Iterator[Page]:
    """A report in one file, opened without a network; what goes wrong on it fails the test."""
    context = browser.new_context(offline=True, **options)
    page, faults = context.new_page(), list[str]()
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(file.as_uri())
    yield page
    context.close()
    assert faults == []


def ask(page: Page, **fields: str) -> None:
    """Fill in the form and send it."""
    for name, value in fields.items():
        page.fill(f"#{name}", value)
    page.get_by_role("button", name="Find the layout").click()


def await_report(page: Page) -> None:
    """Wait until the report and its charts are there."""
    page.wait_for_url("**/studies/*")
    page.wait_for_selector("html[data-drawn=true]")
