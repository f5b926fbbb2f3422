"""Can a person sign in with a key, do what it allows, and leave? And nobody in their name?"""

import logging

import pytest
from sqlalchemy import MetaData, select
from starlette.testclient import TestClient

from api.access.sessions import COOKIE
from api.app import create_app
from api.routes.login import own_path
from api.service import Service
from api.upkeep import tidy
from tests.api.access.browser import OWN, Browser
from tests.api.conftest import TINY, Clock
from tests.api.work.factories import client_with, make_key


def test_a_key_is_traded_for_a_session_that_does_what_it_allows(service: Service) -> None:
    """From the page that was wanted over the form and back; pages tell who is there; signing out ends it."""
    _, key = make_key(service, "submit")
    browser = Browser(service)
    sent = browser.client.get("/", params={"name": "my study"})
    assert sent.status_code == 303
    assert sent.headers["location"] == "/login?next=%2F%3Fname%3Dmy%2Bstudy"
    entered = browser.sign_in(key, following="/?name=my+study")
    assert (entered.status_code, entered.headers["location"]) == (303, "/?name=my+study")
    page = browser.client.get("/")
    assert page.status_code == 200
    assert "alice" in page.text
    assert "a key" in page.text
    made = browser.client.post("/v1/studies", json=TINY, headers={"X-CSRF-Token": browser.token()})
    assert (made.status_code, made.json()["created_by"]) == (201, "alice")
    assert browser.client.get("/v1/keys").status_code == 403
    left = browser.client.post("/logout", data={"csrf": browser.token()})
    assert (left.status_code, left.headers["location"]) == (303, "/login")
    assert browser.client.get("/").status_code == 303


def test_the_cookie_is_for_this_service_alone(sqlite_service: Service) -> None:
    """Unseen by scripts, not sent with posts of other pages, over https only where the service is."""
    _, key = make_key(sqlite_service, "read")
    for base, secure in (("http://127.0.0.1", False), ("https://127.0.0.1", True)):
        cookie = Browser(sqlite_service, base=base).sign_in(key).headers.get_list("set-cookie")[0].split("; ")
        assert cookie[0].startswith(f"{COOKIE}=")
        assert {"HttpOnly", "SameSite=lax", "Path=/", "Max-Age=604800"} < set(cookie)
        assert ("Secure" in cookie) is secure
    settings = sqlite_service.settings.model_copy(update={"public_url": "https://tuner.example.org"})
    behind = Service(settings, sqlite_service.database, sqlite_service.clock)
    assert "Secure" in Browser(behind, base="http://tuner.example.org").sign_in(key).headers["set-cookie"]


def test_services_on_two_ports_of_a_host_keep_their_sessions_apart(sqlite_service: Service) -> None:
    """A browser sends the cookies of a host to both, as to the ends of two tunnels."""
    _, key = make_key(sqlite_service, "read")
    both = [Browser(sqlite_service, base=f"http://127.0.0.1:{port}") for port in (8000, 8001)]
    names = [each.sign_in(key).headers["set-cookie"].partition("=")[0] for each in both]
    assert names == [f"{COOKIE}_8000", f"{COOKIE}_8001"]
    for browser, other in (both, both[::-1]):
        browser.client.cookies.update(other.client.cookies)
        assert browser.client.get("/").status_code == 200
        made = browser.client.post("/logout", data={"csrf": browser.token()})
        assert (made.status_code, browser.client.get("/").status_code) == (303, 303)


def test_a_session_ends_with_its_time_its_key_and_the_next_one(service: Service, clock: Clock) -> None:
    """A cookie that was copied before is worth nothing then; what has ended is forgotten."""
    identifier, key = make_key(service, "read")
    browser = Browser(service)

    def enter() -> str:
        browser.sign_in(key)
        return browser.client.cookies[COOKIE]

    def is_known(cookie: str) -> bool:
        copied = TestClient(
            create_app(service=service), base_url="http://127.0.0.1", cookies={COOKIE: cookie}
        )
        return copied.get("/v1/studies").status_code == 200

    first = enter()
    assert is_known(first)
    browser.client.cookies.clear()
    clock.forward(hours=167)
    assert is_known(first)
    clock.forward(hours=2)
    assert not is_known(first)
    second = enter()
    left = browser.client.post("/logout", data={"csrf": browser.token()})
    assert left.status_code == 303
    assert not is_known(second)
    third = enter()
    client_with(service, "admin").delete(f"/v1/keys/{identifier}")
    assert not is_known(third)
    clock.forward(hours=200)
    tidy(service)
    with service.database.reading() as session:
        tables = MetaData()
        tables.reflect(service.database.engine)
        assert session.execute(select(tables.tables["sessions"])).all() == []


@pytest.mark.parametrize("key", ["", "chimera_" + "x" * 43, "ümlaut\0", "x" * 5_000, "revoked"])
def test_what_is_no_key_opens_nothing(sqlite_service: Service, key: str) -> None:
    """The page says so, in one way, and never shows what was typed."""
    if key == "revoked":
        identifier, key = make_key(sqlite_service, "read")
        client_with(sqlite_service, "admin").delete(f"/v1/keys/{identifier}")
    browser = Browser(sqlite_service)
    refused = browser.sign_in(key)
    assert refused.status_code == 401
    assert "not known here, or it was revoked" in refused.text
    assert key == "" or key not in refused.text
    assert COOKIE not in browser.client.cookies


def test_a_form_from_elsewhere_signs_nobody_in(sqlite_service: Service) -> None:
    """Else a visitor would work in the name of whoever made that page, without seeing it."""
    _, key = make_key(sqlite_service, "submit")
    client = Browser(sqlite_service).client
    for fields in ({}, {"csrf": ""}, {"csrf": "0" * 64}):
        assert client.post("/login", data={"key": key, **fields}).status_code == 403
    evil = {"Origin": "http://evil.example"}
    assert client.post("/login", data={"key": key}, headers=evil).status_code == 403
    assert COOKIE not in client.cookies


def test_where_nobody_needs_a_key_the_page_says_so(sqlite_service: Service) -> None:
    """Until the first one is made."""
    browser = Browser(sqlite_service)
    assert 'href="/?name=a">read and ask' in browser.client.get("/login?next=/%3Fname%3Da").text
    make_key(sqlite_service, "read")
    assert "answers to holders of a key" in browser.client.get("/login").text


def test_a_script_whose_session_ended_hears_so(sqlite_service: Service) -> None:
    """It would put the form that takes a key into its page; a person is led there."""
    make_key(sqlite_service, "read")
    browser = Browser(sqlite_service)
    for mode, status in (("navigate", 303), ("cors", 401), ("same-origin", 401)):
        assert browser.client.get("/", headers={"Sec-Fetch-Mode": mode}).status_code == status


@pytest.mark.parametrize("form", [{}, {"csrf": "x"}, {"csrf": "0" * 64}])
def test_only_its_own_page_signs_a_browser_out(sqlite_service: Service, form: dict[str, str]) -> None:
    """And a browser that is not signed in just goes to the form."""
    _, key = make_key(sqlite_service, "read")
    browser = Browser(sqlite_service)
    assert browser.client.post("/logout", data=form).status_code == 303
    browser.sign_in(key)
    assert browser.client.post("/logout", data=form).status_code == 403
    assert browser.client.get("/").status_code == 200


@pytest.mark.parametrize(
    "wanted",
    [
        "//evil.example", "/\\evil.example", "https://evil.example/", "javascript:alert(1)",
        "\t//evil.example", "/\t/evil.example", "/ok\r\nSet-Cookie: a=b", "///evil.example",
        "/\u2028/evil.example", "", "evil", "/login", "/logout?x=1",
    ],
)  # fmt: skip
def test_nobody_is_led_elsewhere(sqlite_service: Service, wanted: str) -> None:
    """What is no path of this service leads to its first page."""
    _, key = make_key(sqlite_service, "read")
    assert own_path(wanted, "") == "/"
    browser = Browser(sqlite_service)
    form = browser.client.get("/login", params={"next": wanted[:2_000]})
    assert form.status_code == 200
    assert browser.sign_in(key, following=wanted[:2_000]).headers["location"] == "/"
    assert own_path(wanted, "/tuner") == "/tuner/"


def test_own_paths_are_kept(sqlite_service: Service) -> None:
    """With their query, and under the path that a proxy shows the service at."""
    for wanted in ("/", "/studies/1?candidate=2", "/compare?ids=a,b", "/%2F%2Fevil.example"):
        assert own_path(wanted, "") == wanted
        assert own_path(f"/tuner{wanted}", "/tuner") == f"/tuner{wanted}"
    assert own_path("/tunerx/", "/tuner") == own_path("/studies", "/tuner") == "/tuner/"
    _, key = make_key(sqlite_service, "read")
    browser = Browser(sqlite_service, root_path="/tuner")
    sent = browser.client.get("/tuner/?name=a")
    assert sent.headers["location"] == "/tuner/login?next=%2Ftuner%2F%3Fname%3Da"
    entered = browser.sign_in(key, following="/tuner/?name=a", path="/tuner/login")
    assert entered.headers["location"] == "/tuner/?name=a"
    assert "Path=/tuner" in entered.headers["set-cookie"]
    assert browser.client.get("/tuner/").status_code == 200


def test_guessing_is_slowed_down(sqlite_service: Service) -> None:
    """Ten attempts at once from one address, then one every six seconds; the right key waits as well."""
    _, key = make_key(sqlite_service, "read")
    browser = Browser(sqlite_service)
    for _ in range(10):
        assert browser.sign_in("wrong").status_code == 401
    refused = browser.sign_in(key)
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 6


def test_neither_key_nor_cookie_is_stored_logged_or_shown(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """Not in a row, a line of the log, an address or a page."""
    caplog.set_level(logging.DEBUG)
    _, key = make_key(service, "admin")
    browser = Browser(service)
    entered = browser.sign_in(key)
    cookie = browser.client.cookies[COOKIE]
    page = browser.client.get("/").text
    browser.client.post("/v1/keys", json={"name": "n", "scopes": ["read"]})
    browser.client.app.state.service = None  # type: ignore[attr-defined]
    assert browser.client.get("/v1/studies").status_code == 500
    tables = MetaData()
    tables.reflect(service.database.engine)
    with service.database.reading() as session:
        rows = [str(row) for table in tables.sorted_tables for row in session.execute(select(table))]
    assert any("log_in" in row for row in rows)
    for secret in (key, cookie):
        assert not any(secret in row for row in rows)
        assert secret not in caplog.text
        assert secret not in page + entered.headers["location"]


def test_names_are_shown_as_text(sqlite_service: Service) -> None:
    """Of owner and key, and of the page that was wanted."""
    attack = '"><script>alert(1)</script>'
    browser = Browser(sqlite_service)
    form = browser.client.get("/login", params={"next": f"/?name={attack}"}, headers=OWN)
    assert "<script>alert" not in form.text
    _, key = make_key(sqlite_service, "read", owner=attack)
    browser.sign_in(key)
    page = browser.client.get("/").text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
