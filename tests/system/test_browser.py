"""Can a person use the pages: ask, read the answer, see why, take the launch settings along?"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from api.reports.report import render_report
from profiles import library
from tuner.planning import answer
from tuner.request import read_request

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
ROOT = Path(__file__).parents[2]
ATTACK = '"><img src=x onerror="document.title=1"><script>document.title=1</script>'
CONFIG = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 8,
    "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000, "max_position_embeddings": 512,
}  # fmt: skip


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


TOUCHES = """(bar) => {
  const copy = bar.querySelector(".copy").getBoundingClientRect();
  return [...bar.querySelectorAll("[role=tab]")].some((tab) => {
    const box = tab.getBoundingClientRect();
    return box.right > copy.left && box.left < copy.right && box.bottom > copy.top && box.top < copy.bottom;
  });
}"""
"""Whether the Copy button covers a tab."""

expect.set_options(timeout=30_000)  # as long as the browser itself waits for what a busy machine draws


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


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service on a database of its own."""
    yield from serving(tmp_path_factory.mktemp("service"))


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """A headless Chromium."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def visit(browser: Browser, service: str) -> Iterator[Visit]:
    """A page whose errors fail the test: scripts that throw, files that miss, policies that break."""
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    visited = Visit(page, service)

    def note(message: ConsoleMessage) -> None:
        # The browser notes each refused request by itself.
        if message.type in {"error", "warning"} and "status of 4" not in message.text:
            visited.faults.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: visited.faults.append(str(error)))
    yield visited
    page.context.close()
    assert visited.faults == []


def ask(page: Page, **fields: str) -> None:
    """Fill in the form and send it."""
    for name, value in fields.items():
        page.fill(f"#{name}", value)
    page.get_by_role("button", name="Find the layout").click()


def await_report(page: Page) -> None:
    """Wait until the report and its charts are there."""
    page.wait_for_url("**/studies/*")
    page.wait_for_selector("html[data-drawn=true]")


def test_a_study_is_asked_for_and_its_report_read(visit: Visit) -> None:
    """From the form to the answer, the charts, the launch settings and the export, and back to the list."""
    page = visit.open()
    ask(page, name="from the form", devices="32", mini_batch_size="512")
    await_report(page)
    heading = page.locator("h1").inner_text()
    assert "W=" in heading
    assert "data-parallel x D=" in " ".join(heading.split())
    assert page.locator("#chart-throughput svg.main-svg").count() > 0
    assert page.locator("#chart-memory .bars path").count() > 10
    page.get_by_role("tab", name="Environment").click()
    assert "export CHIMERA_WIDTH=" in page.locator("#launch-env pre").inner_text()
    assert not page.locator("#launch-megatron").is_visible()
    study = page.evaluate(f"fetch('/v1{page.url.removeprefix(visit.base)}').then((answer) => answer.json())")
    assert study["name"] == "from the form"
    exported = page.evaluate("(path) => fetch(path).then((answer) => answer.text())", _export(study, "env"))
    assert exported.strip() == page.locator("#launch-env pre").inner_text().strip()
    visit.open()
    assert page.get_by_role("link", name="from the form").is_visible()


def test_a_problem_is_told_beside_the_form(visit: Visit) -> None:
    """In the words of the service, at the field that it names; what was filled in stays."""
    page = visit.open()
    ask(page, devices="0", name="stays")
    page.wait_for_selector("#trouble:not(:empty)")
    assert "Devices: must be a whole number" in page.locator("#trouble").inner_text()
    assert page.locator("#devices").get_attribute("aria-invalid") == "true"
    assert page.input_value("#name") == "stays"
    ask(page, devices="many")
    assert "“many” is not a number" in page.locator("#trouble").inner_text()
    ask(page, devices="60000")
    expect(page.locator("#trouble")).to_contain_text("that 60,000 devices allow")
    assert page.url.rstrip("/") == visit.base


def test_a_config_is_given_as_a_file(visit: Visit, tmp_path: Path) -> None:
    """Chosen from disk, named after its file; without a sequence length the service says so."""
    file = tmp_path / "small-llama.json"
    file.write_text(json.dumps(CONFIG))
    page = visit.open()
    page.get_by_label("a config.json", exact=True).check()
    page.set_input_files("#file", file)
    expect(page.locator("#model_name")).to_have_value("small-llama")
    page.select_option("#cluster", "local-cpu")
    ask(page, devices="2", mini_batch_size="8")
    expect(page.locator("#trouble")).to_contain_text("Sequence length is required")
    ask(page, sequence_length="128")
    await_report(page)
    assert "small-llama" in page.locator(".question").inner_text()


def test_markup_in_names_is_shown_as_text(visit: Visit) -> None:
    """In the report, in its charts and in the list."""
    page = visit.open()
    page.get_by_label("a config.json", exact=True).check()
    page.fill("#config", json.dumps(CONFIG))
    page.select_option("#cluster", "local-cpu")
    ask(page, model_name=ATTACK, name=ATTACK, devices="2", mini_batch_size="8", sequence_length="128")
    await_report(page)
    assert page.locator(".subject .title").inner_text() == ATTACK
    assert ATTACK in page.locator(".question").inner_text()
    visit.open()
    assert page.get_by_text(ATTACK).count() >= 1
    assert page.title() == "Chimera Tuner"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_cut_on_a_phone_or_in_the_dark(visit: Visit, width: int, scheme: str) -> None:
    """No page is wider than its window, and the charts take the scheme's colours."""
    page = visit.page
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": width, "height": 900})
    visit.open()
    assert visit.overflow() == 0
    ask(page, devices="32", mini_batch_size="512")
    await_report(page)
    page.locator("details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    assert visit.overflow() == 0
    assert not page.locator(".tabbar").evaluate(TOUCHES)
    if width == 1280:
        hidden = page.locator("#candidates .scroll").evaluate("(one) => one.scrollWidth - one.clientWidth")
        assert hidden == 0
    ink = page.locator("#chart-memory .xtitle").evaluate("(title) => getComputedStyle(title).fill")
    assert ink == ("rgb(165, 173, 181)" if scheme == "dark" else "rgb(86, 94, 103)")
    page.screenshot(path=screenshots() / f"report-{scheme}-{width}.png", full_page=True)


def test_candidates_are_sorted_by_their_headings(visit: Visit) -> None:
    """Once rising, twice falling, told to screen readers."""
    page = visit.open()
    ask(page)
    await_report(page)
    heading = page.get_by_role("button", name="Peak, GB")
    cells = page.locator("#candidates tbody td:last-child")
    heading.click()
    rising = [float(text) for text in cells.all_inner_texts()]
    heading.click()
    falling = [float(text) for text in cells.all_inner_texts()]
    assert rising == sorted(rising)
    assert falling == sorted(rising, reverse=True)
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Peak, GB")


def test_more_of_the_rejected_are_fetched(visit: Visit) -> None:
    """A hundred of each kind at first, the next ones on demand."""
    page = visit.open()
    page.locator("form summary").click()
    page.select_option("#search", "exhaustive")
    ask(page)
    await_report(page)
    page.locator("#rejected summary").first.click()
    rows = page.locator("#rejected tbody").first.locator("tr")
    assert rows.count() == 100
    page.get_by_role("link", name="show more").first.click()
    expect(rows.nth(100)).to_be_visible()
    assert "W=" in rows.nth(100).inner_text()


def test_the_form_can_be_used_with_the_keyboard_alone(visit: Visit) -> None:
    """Tab reaches the fields in their order, Enter sends."""
    page = visit.open()
    page.focus("#devices")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("16")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "mini_batch_size"
    page.keyboard.press("Enter")
    await_report(page)
    assert "16 ×" in page.locator(".question").inner_text()


def test_the_report_in_one_file_opens_without_a_network(browser: Browser, tmp_path: Path) -> None:
    """From the disk, offline, with its charts, under its own policy."""
    asked = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}
    file = tmp_path / "report.html"
    file.write_text(render_report(answer(read_request(asked), library), standalone=True), encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-drawn=true]")
    assert page.locator("#chart-throughput svg.main-svg").count() > 0
    assert page.pdf()[:4] == b"%PDF"
    context.close()
    assert faults == []


def _export(study: dict[str, object], format: str) -> str:
    links = study["links"]
    assert isinstance(links, dict)
    return str(links["export"]).replace("{format}", format)
