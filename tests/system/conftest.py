"""What do the system tests share? A service on each database, and a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.system.browsing import FLAGS, Visit, serving
from tests.system.site import Site, open_site


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A site on each database."""
    address = f"sqlite:///{tmp_path}/chimera.db"
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_url")
    yield from open_site(address, tmp_path)


@pytest.fixture
def sqlite_site(tmp_path: Path) -> Iterator[Site]:
    """A site whose database is a file."""
    yield from open_site(f"sqlite:///{tmp_path}/chimera.db", tmp_path)


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


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that no service is known for yet, whose faults fail the test."""
    faults: list[str] = []
    made = browser.new_context().new_page()
    made.on("pageerror", lambda error: faults.append(str(error)))

    def note(message: ConsoleMessage) -> None:
        # The browser notes each refused request by itself.
        if message.type == "error" and " 401 " not in message.text:
            faults.append(message.text)

    made.on("console", note)
    yield made
    made.context.close()
    assert faults == []
