"""Does the page of a study follow it while it goes on, and become its report?"""

import pytest
from playwright.sync_api import Page, expect

from api.service import now
from api.storage.identifiers import new_identifier
from tests.api.life.pool import MEASURED, result_of
from tests.system.site import Site
from tuner.client import ServiceClient
from tuner.messages import DeviceGroup, Done, WorkerInventory

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_page_of_a_study_follows_it(
    sqlite_site: Site, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked from the form. Without a reload it tells state, trials and the fastest; then the report comes."""
    monkeypatch.setenv("CHIMERA_REQUIRE_KEYS", "false")
    site = sqlite_site
    site.start_api()
    devices = (DeviceGroup(accelerator="cpu", count=2, memory_bytes=10**9),)
    inventory = WorkerInventory(id=new_identifier(now()), name="bench", version="0", devices=devices)
    with ServiceClient(site.url, key=site.worker_key) as worker:
        assert worker.claim(inventory, wait_s=0) is None

        def work() -> None:
            job = worker.claim(inventory)
            assert job
            worker.finish(job, Done(result=result_of(job.model_dump(mode="json"))))

        # As where a proxy answers in place of a service that starts anew: no browser asks again by itself.
        page.route("**/events", lambda route: route.fulfill(status=204), times=1)
        page.goto(site.url, wait_until="networkidle")
        page.select_option("#preset", MEASURED["model"])
        page.select_option("#cluster", MEASURED["cluster"])
        page.fill("#devices", str(MEASURED["devices"]))
        page.fill("#mini_batch_size", str(MEASURED["mini_batch_size"]))
        page.get_by_label("Run the best configurations on workers").check()
        page.fill("#trials", str(MEASURED["refine"]["trials"]))
        expect(page.locator("#standing")).to_contain_text("answered after workers did: trial")
        page.get_by_role("button", name="Find the layout").click()
        page.wait_for_url("**/studies/*", wait_until="domcontentloaded")
        page.evaluate("window.kept = true")
        expect(page.locator("h1")).to_have_text("Profiling")
        expect(page.locator(".lede").first).to_contain_text("profile_model job")
        for _ in range(3):
            work()
        expect(page.locator("h1")).to_have_text("Measuring", timeout=30_000)
        expect(page.locator("#trials tbody tr")).to_have_count(2, timeout=30_000)
        expect(page.locator(".metrics")).to_contain_text("110 ms")
        assert page.evaluate("window.kept")
        work()
        work()
        expect(page.locator("h1")).to_contain_text("data-parallel", timeout=30_000)
        expect(page.locator("#trials tbody tr")).to_have_count(3)
        expect(page.locator(".metrics")).to_contain_text("measured")
