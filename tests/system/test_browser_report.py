"""Can a reader of a report ask what would be otherwise, and take all of it along?"""

import csv
import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.api.conftest import BERT
from tests.system.browsing import SUBMIT, Visit, await_report, offline

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def open_report(visit: Visit) -> Page:
    """The page of a new study."""
    page = visit.open()
    visit.open(page.evaluate(SUBMIT, BERT))
    await_report(page)
    return page


def test_a_change_is_planned_at_once_and_the_latest_wins(visit: Visit) -> None:
    """Beside the study's answer, with the difference; a slow answer to an earlier change comes too late."""
    page = open_report(visit)
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    page.route("**/v1/plans", hold_the_first)
    memory = page.get_by_label("Memory of a device")
    with page.expect_request("**/v1/plans"):
        memory.fill("12")
    memory.fill("40")
    status, answer = page.locator("#what-if-status"), page.locator("#what-if-answer")
    expect(status).to_contain_text(re.compile("as fast|throughput"))
    expect(answer.get_by_role("row", name="Memory left")).to_contain_text("+")
    shown = answer.inner_text()
    held[0].fulfill(status=422, json={"title": "late", "detail": "too late"})
    page.locator("#if-schedule").select_option("gpipe")
    expect(answer.get_by_role("row", name="Schedule")).to_contain_text("GPipe")
    assert answer.inner_text() != shown
    assert page.locator("#what-if-trouble").inner_text() == ""
    page.get_by_role("button", name="As the study has it").click()
    expect(answer).to_be_hidden()
    page.locator("#if-schedule").select_option("gems")
    expect(answer).to_be_visible()
    before = page.url
    page.get_by_role("button", name="Keep as a study").click()
    page.wait_for_url(lambda url: url != before)
    await_report(page)
    expect(page.locator(".hero .lede")).to_contain_text("GEMS")


def test_what_cannot_be_planned_is_told_as_text(visit: Visit) -> None:
    """Whether the page sees it or the service does; the keyboard reaches the fields in their order."""
    page = open_report(visit)
    trouble, devices = page.locator("#what-if-trouble"), page.locator("#if-devices")
    devices.fill("<b>many</b>")
    expect(trouble).to_have_text("Devices: “<b>many</b>” is not a number above 0")
    assert devices.get_attribute("aria-invalid") == "true"
    devices.fill("33000")
    expect(trouble).to_contain_text("divides over none of the widths")
    devices.focus()
    for name in ("mini_batch_size", "device_memory_bytes", "link_bandwidth_factor", "schedules"):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == name


def why_not_gems(page: Page) -> str:
    """What the page says when it is asked why GEMS was not taken with so many ranks."""
    page.get_by_label("Why not").select_option("gems")
    page.get_by_label("and D =").fill("3")
    expect(page.locator("#found-status")).to_contain_text("shown")
    expect(page.locator("#found tbody tr").first).to_contain_text("W=10 × D=3")
    return page.locator("#found").inner_text()


def test_the_report_is_taken_along_and_opens_offline(visit: Visit, browser: Browser, tmp_path: Path) -> None:
    """With every table, the plan, a second lane and each reason inside, without a network."""
    page = open_report(visit)
    reasons = why_not_gems(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="This report, one file").click()
    file = tmp_path / "report.html"
    download.value.save_as(file)
    with page.expect_download() as table:
        page.get_by_role("link", name="Rejected, CSV").click()
    online = Path(table.value.path()).read_bytes()

    with offline(browser, file) as opened:
        opened.wait_for_selector("html[data-drawn=true]")
        saved = {name: _save(opened, name) for name in ("Plan, JSON", "Rejected, CSV", "Timeline, Perfetto")}
        plan = json.loads(saved["Plan, JSON"])
        assert saved["Rejected, CSV"] == online
        assert len(list(csv.reader(online.decode().splitlines()))) == 1 + len(plan["rejected"])
        assert len(json.loads(saved["Timeline, Perfetto"])["traceEvents"]) > plan["chosen"]["depth"]
        assert why_not_gems(opened) == reasons
        opened.get_by_label("Compare with").select_option(index=1)
        expect(opened.locator("#timeline-canvas")).to_have_attribute("data-lanes", "2")
        assert opened.locator("#what-if").count() == 0


def _save(page: Page, name: str) -> bytes:
    with page.expect_download() as download:
        page.get_by_role("button", name=name).click()
    return Path(download.value.path()).read_bytes()
