"""Can everybody use every page: on a phone, in the dark, with keys alone, whatever the names hold?"""

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.system.accessibility import faults
from tests.system.browsing import ATTACK, CONFIG, Visit, ask, await_report, screenshots, serving
from tests.system.furnished import Furnished, address_in, furnish

pytestmark = [pytest.mark.browser, pytest.mark.slow]
HEAVY = {"report", "nothing-fits", "goes-on"}
"""Pages with tests of their own, which take longest."""

ALIKE = {"found", "silent", "missing", "cluster-shipped", "compare-nothing", "history-nothing"}
"""Pages made of what others show too: once is enough where there is little time."""

DROP = """([form, name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([text], name, { type: "application/json" }));
  for (const kind of ["dragenter", "dragover", "drop"]) {
    form.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));
  }
}"""
"""Drops a file on an element."""


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Furnished:
    """The contents of the service's database."""
    return furnish(address_in(tmp_path_factory.getbasetemp()))


@pytest.fixture(scope="module")
def service(furnished: Furnished, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service on that database."""
    yield from serving(tmp_path_factory.getbasetemp())


def look(visit: Visit, name: str, path: str, *, scheme: str) -> list[str]:
    """What is wrong with a page: rules of accessibility, its width, a script in a name that ran."""
    page = visit.page
    page.goto(visit.base + path, wait_until="load")
    if name in HEAVY - {"goes-on"}:
        page.wait_for_selector("html[data-drawn=true]", state="attached")
    page.locator("details").evaluate_all("(all) => all.forEach((one) => { one.open = true; })")
    found = [f"{name}: {fault}" for fault in faults(page)]
    if visit.overflow():
        found.append(f"{name}: {visit.overflow()} pixels wider than the window")
    if page.title() == "1" or page.locator("img").count():
        found.append(f"{name}: a name became markup")
    width = page.viewport_size["width"] if page.viewport_size else 0
    page.screenshot(path=screenshots() / f"{name}-{scheme}-{width}.png", full_page=True)
    return found


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_every_page_can_be_used_by_everybody(
    visit: Visit, furnished: Furnished, scheme: str, width: int
) -> None:
    """The rules of axe-core hold, nothing is wider than the window, and markup in names is text."""
    visit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    visit.page.set_viewport_size({"width": width, "height": 900})
    wrong = [
        fault
        for name, path in furnished.pages.items()
        if name not in HEAVY and (scheme == "light" or name not in ALIKE)
        for fault in look(visit, name, path, scheme=scheme)
    ]
    assert wrong == []


@pytest.mark.long
@pytest.mark.parametrize("width", [390, 820, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_everywhere(visit: Visit, furnished: Furnished, scheme: str, width: int) -> None:
    """Reports too, in every scheme and width."""
    visit.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    visit.page.set_viewport_size({"width": width, "height": 900})
    wrong = [
        fault for name, path in furnished.pages.items() for fault in look(visit, name, path, scheme=scheme)
    ]
    assert wrong == []


@pytest.mark.long
def test_every_page_on_paper(visit: Visit, furnished: Furnished) -> None:
    """Also of who reads in the dark: paper stays white, and nothing is wider than it."""
    visit.page.emulate_media(color_scheme="dark", media="print")
    visit.page.set_viewport_size({"width": 720, "height": 1000})
    wrong = [
        fault
        for name, path in furnished.pages.items()
        for fault in look(visit, f"{name}-print", path, scheme="dark")
    ]
    assert visit.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert wrong == []


def test_names_are_shown_as_they_are(visit: Visit, furnished: Furnished) -> None:
    """Of studies, profiles, clusters, workers, models, failures and checks."""
    seen, wanted = dict[str, int](), dict[str, int]()
    shows = {"index": 2, "profile": 3, "clusters": 1, "cluster": 2, "workers": 2, "history": 2}
    for name, times in (shows | {"silent": 2, "compare": 2}).items():
        visit.page.goto(visit.base + furnished.pages[name], wait_until="load")
        seen[name] = visit.page.get_by_text(ATTACK).count()
        wanted[name] = times
    assert {name: times for name, times in wanted.items() if seen[name] < times} == {}, seen


def test_studies_are_ticked_and_compared_with_keys_alone(visit: Visit, furnished: Furnished) -> None:
    """The button waits for two; the focus can be seen; what was asked and answered stands side by side."""
    page = visit.open("/?status=done")
    button = page.get_by_role("button", name="Compare", exact=True)
    expect(button).to_be_disabled()
    page.get_by_role("checkbox", name="Compare one").focus()
    page.keyboard.press("Space")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    expect(button).to_be_disabled()
    page.get_by_role("checkbox", name="Compare twice").focus()
    page.keyboard.press("Space")
    expect(page.locator("#ticked")).to_have_text("2 are ticked.")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?*")
    assert page.locator("h1").inner_text() == "2 studies side by side"
    for study in ("one", "twice"):
        assert furnished.studies[study] in page.url
    assert page.locator("svg.plot").count() == 2


def test_every_page_is_reached_from_the_head_of_each(visit: Visit) -> None:
    """With keys: the first stop skips to the content, then come the pages."""
    page = visit.open()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for name in ("Compare", "Profiles", "Clusters", "Workers", "Studies"):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).focus()
        page.keyboard.press("Enter")
        here = page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")
        expect(here).to_have_text(name)


def test_the_form_says_what_is_wrong_while_it_is_filled_in(visit: Visit) -> None:
    """Numbers at once and at their field; the rest in the words of the service, which stores nothing."""
    page = visit.open()
    page.fill("#devices", "many")
    expect(page.locator("#devices-fault")).to_have_text("Devices: “many” is not a number")
    assert page.locator("#devices").get_attribute("aria-invalid") == "true"
    page.fill("#devices", "32")
    expect(page.locator("#devices-fault")).to_have_count(0)
    expect(page.locator("#standing")).to_contain_text("bert-48: 48 blocks")
    page.locator("form summary").click()
    page.fill("#depth", "64")
    expect(page.locator("#standing")).to_have_text("depth 64 exceeds the model's 48 blocks: use D <= 48")
    page.fill("#depth", "")
    expect(page.locator("#standing")).to_contain_text("answered at once")


def test_a_config_is_dropped_on_the_form(visit: Visit) -> None:
    """What is no JSON is told; a config.json is taken, named after its file, and asked about."""
    page = visit.open()
    form = page.locator("#ask-form").element_handle()
    page.evaluate(DROP, [form, "notes.txt", "not json"])
    expect(page.locator("#config-fault")).to_contain_text("not valid JSON")
    page.evaluate(DROP, [form, "small-llama.json", json.dumps(CONFIG)])
    expect(page.locator("#model_name")).to_have_value("notes.txt")
    page.select_option("#cluster", "local-cpu")
    page.fill("#model_name", "small-llama")
    page.fill("#mini_batch_size", "8")
    page.fill("#sequence_length", "128")
    page.fill("#devices", "2")
    expect(page.locator("#standing")).to_contain_text("small-llama: 8 blocks")
    ask(page)
    await_report(page)
    assert "small-llama" in page.locator(".question").inner_text()


def test_a_study_that_goes_on_is_followed_in_the_list(visit: Visit, furnished: Furnished) -> None:
    """The row tells that it was cancelled, without a reload; its tick stays."""
    page = visit.open()
    row = page.locator(f"tr[data-id='{furnished.studies['goes on']}']")
    expect(row).to_contain_text("measuring")
    row.get_by_role("checkbox").check()
    page.evaluate("window.kept = true")
    cancel = f"chimera.send('POST', '/v1/studies/{furnished.studies['goes on']}/cancel')"
    assert page.evaluate(f"{cancel}.then((answer) => answer.status)") == 200
    expect(row).to_contain_text("cancelled")
    assert row.get_by_role("checkbox").is_checked()
    assert page.evaluate("window.kept")


def test_a_job_is_cancelled_in_two_clicks(visit: Visit) -> None:
    """One's own, with keys; the page says so and shows it."""
    page: Page = visit.open("/workers")
    button = page.get_by_role("button", name="Cancel job").last
    label = str(button.get_attribute("aria-label"))
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_text("Really cancel?")
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_contain_text("is cancelled")
    expect(page.get_by_role("button", name=label)).to_have_count(0)
