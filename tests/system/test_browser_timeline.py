"""Can a reader see the chosen schedule over time: drawn, zoomed, pointed at, walked with keys, offline?"""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect

from api.reports.report import render_report
from api.reports.timeline import embedded_timeline
from profiles import library
from tests.api.conftest import BERT
from tests.system.browsing import SUBMIT, Visit, await_report, offline
from tuner.planning import answer
from tuner.request import read_request

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""Waits until what was asked for is drawn."""

COLOURS = """(canvas) => {
  const { data: pixels } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const seen = new Map();
  for (let at = 0; at < pixels.length; at += 4) {
    const key = pixels.slice(at, at + 4).join();
    seen.set(key, (seen.get(key) || 0) + 1);
  }
  return [...seen.values()].filter((count) => count > 500).length;
}"""
"""How many colours fill an area of the canvas."""

LONG: dict[str, Any] = BERT | {
    "mini_batch_size": 1024, "schedules": "chimera", "depth": 32, "micro_batch_size": 1
}  # fmt: skip
"""65,536 forwards and backwards."""


def open_study(visit: Visit, **options: Any) -> Locator:
    """The canvas of a new study, once its timeline was fetched and drawn."""
    page = visit.open()
    path = page.evaluate(SUBMIT, BERT | options)
    visit.open(path)
    await_report(page)
    page.locator("#timeline").scroll_into_view_if_needed()
    page.wait_for_selector("#timeline-view[data-drawn=true]")
    return page.locator("#timeline-canvas")


def window(canvas: Locator) -> tuple[float, float]:
    """The seconds that are in view."""
    canvas.page.evaluate(FRAMES)
    first, last = (canvas.get_attribute(f"data-{edge}") for edge in ("from", "to"))
    return float(first or 0), float(last or 0)


def middle(canvas: Locator) -> tuple[float, float]:
    """The middle of its first row, on the page."""
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + 34


def test_it_is_drawn_and_said_in_words(visit: Visit) -> None:
    """Several colours, the same numbers in a sentence and a table, a link to the trace."""
    canvas = open_study(visit)
    page = canvas.page
    assert canvas.evaluate(COLOURS) >= 5
    words = page.locator("#timeline-words").inner_text()
    assert "The iteration takes" in words
    assert "computes the most" in words
    assert words in (canvas.get_attribute("aria-label") or "")
    page.locator("#timeline summary").click()
    assert page.locator("#timeline tbody tr").count() == page.locator("#memory tbody tr").count()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the trace").click()
    assert download.value.suggested_filename.endswith(".trace.json")


def test_it_is_zoomed_and_moved_with_the_mouse(visit: Visit) -> None:
    """Buttons and the wheel zoom, dragging moves, and the whole is one click away."""
    canvas = open_study(visit)
    page = canvas.page
    whole = window(canvas)
    page.get_by_role("button", name="Zoom in").click()
    zoomed = window(canvas)
    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 2)
    x, y = middle(canvas)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 100, y, steps=4)
    page.mouse.up()
    moved = window(canvas)
    assert moved[0] < zoomed[0]
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0])
    page.mouse.wheel(0, -200)
    expect(canvas).not_to_have_attribute("data-from", str(moved[0]))
    nearer = window(canvas)
    assert nearer[1] - nearer[0] < zoomed[1] - zoomed[0]
    page.get_by_role("button", name="Show all").click()
    assert window(canvas) == whole


def test_another_candidate_is_set_beside_on_one_axis(visit: Visit) -> None:
    """Any of the ranked list; a sentence compares them, keys go from one to the other, and it goes again."""
    canvas = open_study(visit)
    page, whole = canvas.page, window(canvas)
    beside = page.get_by_label("Compare with")
    slower = beside.locator("option").last
    beside.select_option(slower.get_attribute("value"))
    expect(canvas).to_have_attribute("data-lanes", "2")
    title = slower.get_attribute("data-title") or ""
    expect(page.locator("#timeline-words")).to_contain_text(f"Beside it {title.partition('. ')[2]}: ")
    expect(page.locator("#timeline-words")).to_contain_text("longer")
    assert title in (canvas.get_attribute("aria-label") or "")
    assert window(canvas)[1] > whole[1]
    canvas.focus()
    told = page.locator("#timeline-told")
    for _ in range(1 + page.locator("#memory tbody tr").count()):
        page.keyboard.press("ArrowDown")
    assert "rank 0" in told.inner_text()
    page.keyboard.press("+")
    zoomed = window(canvas)
    assert zoomed[1] - zoomed[0] < whole[1] - whole[0]
    beside.select_option("")
    expect(canvas).to_have_attribute("data-lanes", "1")
    assert window(canvas) == whole


def test_the_wheel_scrolls_the_page_until_the_picture_is_meant(visit: Visit) -> None:
    """Whoever scrolls past is not caught."""
    canvas = open_study(visit)
    whole = window(canvas)
    canvas.page.mouse.move(*middle(canvas))
    canvas.page.mouse.wheel(0, -100)
    canvas.page.wait_for_function("document.activeElement !== document.getElementById('timeline-canvas')")
    assert window(canvas) == whole


def test_what_is_under_the_pointer_is_told(visit: Visit) -> None:
    """Operation, rank, stage, micro-batch, start and duration with units."""
    canvas = open_study(visit)
    tip = canvas.page.locator("#timeline-tip")
    canvas.page.mouse.move(*middle(canvas))
    expect(tip).to_be_visible()
    text = tip.inner_text()
    assert "micro-batch" in text
    assert "rank 0, stage" in text
    assert "starts at" in text
    assert text.replace("\N{NO-BREAK SPACE}", " ").count(" ms") >= 1
    canvas.page.mouse.move(5, 5)
    expect(tip).to_be_hidden()


def test_it_is_read_with_keys_alone(visit: Visit) -> None:
    """Arrows go from operation to operation and say it, + zooms, C shows the critical path, 0 all again."""
    canvas = open_study(visit)
    page, told = canvas.page, canvas.page.locator("#timeline-told")
    whole = window(canvas)
    canvas.focus()
    page.keyboard.press("ArrowRight")
    assert told.inner_text().startswith("Forward of micro-batch 0, rank 0")
    first = told.inner_text()
    page.keyboard.press("ArrowRight")
    assert told.inner_text() != first
    page.keyboard.press("ArrowDown")
    assert "rank 1" in told.inner_text()
    page.keyboard.press("+")
    zoomed = window(canvas)
    assert zoomed[1] - zoomed[0] < whole[1] - whole[0]
    before = canvas.evaluate("(canvas) => canvas.toDataURL()")
    page.keyboard.press("c")
    assert page.locator("#timeline-critical").is_checked()
    window(canvas)
    assert canvas.evaluate("(canvas) => canvas.toDataURL()") != before
    page.keyboard.press("0")
    assert window(canvas) == whole


def test_a_timeline_that_is_refused_is_told(visit: Visit) -> None:
    """In the words of the service."""
    page = visit.page
    page.route("**/timeline", lambda route: route.fulfill(status=409, json={"detail": "it has 9 operations"}))
    page.goto(visit.base)
    path = page.evaluate(SUBMIT, BERT)
    page.goto(visit.base + path)
    page.locator("#timeline").scroll_into_view_if_needed()
    expect(page.locator("#timeline-words")).to_contain_text("No picture: it has 9 operations.")


@pytest.mark.parametrize("width", [390, 1280])
def test_65_536_operations_are_drawn_from_one_file(browser: Browser, width: int, tmp_path: Path) -> None:
    """Offline, under its own policy, the page no wider than its window."""
    request = read_request(LONG)
    plan = answer(request, library)
    timeline = embedded_timeline(request, plan, library)
    file = tmp_path / "report.html"
    file.write_text(render_report(plan, standalone=True, timeline=timeline), encoding="utf-8")
    with offline(browser, file, viewport={"width": width, "height": 900}) as page:
        page.wait_for_selector("#timeline-view[data-drawn=true]")
        canvas = page.locator("#timeline-canvas")
        assert canvas.evaluate(COLOURS) >= 4
        assert (
            page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
        )
