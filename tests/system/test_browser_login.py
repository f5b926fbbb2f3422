"""Can a person sign in on the page that says who they are, and leave again?"""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from api.access import keys
from api.access.keys import Scope
from api.service import now
from tests.system.browsing import ATTACK, ask, await_report
from tests.system.site import Site

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_a_person_signs_in_asks_and_leaves(sqlite_site: Site, page: Page, tmp_path: Path) -> None:
    """From a page that needs a key and back to it; names show as text; the form's script may ask."""
    site, folder = sqlite_site, Path(os.environ.get("SCREENSHOT_FOLDER", tmp_path))
    with site.database.writing() as session:
        _, key = keys.create_key(
            session, name=ATTACK, owner="Ada Lovelace", scopes=[Scope.SUBMIT], created_by="test", now=now()
        )
    site.start_api()
    page.goto(f"{site.url}/?name=%22%3E%3Cscript%3Edocument.title%3D1%3C%2Fscript%3E")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.screenshot(path=folder / "login.png")
    page.get_by_label("API key").fill("chimera_" + "x" * 43)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not known here")
    assert page.get_by_label("API key").input_value() == ""
    page.set_viewport_size({"width": 390, "height": 800})
    page.emulate_media(color_scheme="dark")
    page.screenshot(path=folder / "login-refused-phone-dark.png")
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/?name=*")
    assert page.title() == "Chimera Tuner"
    expect(page.locator(".visitor")).to_contain_text("Ada Lovelace")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.screenshot(path=folder / "signed-in-phone-dark.png")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")
    page.goto(site.url)
    expect(page.locator(".visitor")).to_contain_text(ATTACK)
    page.screenshot(path=folder / "signed-in.png")
    ask(page, name="signed in", devices="32", mini_batch_size="512")
    await_report(page)
    report = page.url
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(report)
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    with site.client() as client:
        assert client.call("GET", "/v1/studies").json()["items"][0]["created_by"] == "Ada Lovelace"
