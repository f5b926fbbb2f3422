"""Can a person use the pages: ask, read the answer, see why, take the launch settings along?"""

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from api.reports.report import render_report
from profiles import library
from tests.system.browsing import ATTACK, CONFIG, Visit, ask, await_report, offline, screenshots
from tuner.planning import answer
from tuner.request import read_request

pytestmark = [pytest.mark.browser, pytest.mark.slow]


TOUCHES = """(bar) => {
  const copy = bar.querySelector(".copy").getBoundingClientRect();
  return [...bar.querySelectorAll("[role=tab]")].some((tab) => {
    const box = tab.getBoundingClientRect();
    return box.right > copy.left && box.left < copy.right && box.bottom > copy.top && box.top < copy.bottom;
  });
}"""
"""Whether the Copy button covers a tab."""


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
    assert "16\u00a0×" in page.locator(".question").inner_text()


def test_the_report_in_one_file_opens_without_a_network(browser: Browser, tmp_path: Path) -> None:
    """From the disk, offline, with its charts, under its own policy."""
    asked = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}
    file = tmp_path / "report.html"
    file.write_text(render_report(answer(read_request(asked), library), standalone=True), encoding="utf-8")
    with offline(browser, file) as page:
        page.wait_for_selector("html[data-drawn=true]")
        assert page.locator("#chart-throughput svg.main-svg").count() > 0
        assert page.pdf()[:4] == b"%PDF"


def _export(study: dict[str, object], format: str) -> str:
    links = study["links"]
    assert isinstance(links, dict)
    return str(links["export"]).replace("{format}", format)
