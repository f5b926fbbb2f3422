"""Do the pages say what they must, and load only what this service serves?"""

import gzip
import re

import pytest
from starlette.testclient import TestClient

from api.service import Service
from api.web.assets import NAMES, asset
from tests.api.conftest import BERT, NO_FIT, TINY, Clock, Submit, connect
from tests.api.life.pool import profile
from tests.api.page import Page

HTML = {"Accept": "text/html"}


def test_the_answer_stands_first(client: TestClient, submit: Submit) -> None:
    """Both vocabularies, the numbers, and only then why."""
    study = submit(**BERT, name="night run")
    chosen = study["plan"]["chosen"]
    text = Page(client.get(study["links"]["page"]).text).text
    answer = f"W={chosen['width']} data-parallel x D={chosen['depth']} pipeline"
    wanted = [
        "night run",
        answer,
        "samples/s",
        "tokens/s",
        "MFU",
        "Memory left",
        "Launch settings",
        "Why this one",
    ]
    places = [text.find(words) for words in wanted]
    assert -1 not in places, dict(zip(wanted, places, strict=True))
    assert places[2:] == sorted(places[2:])
    assert text.find("Rejected, and why") > text.find("Candidates", places[-1]) > places[-1]


def test_that_nothing_fits_stands_first_with_the_smallest_change(client: TestClient, submit: Submit) -> None:
    """Then what each layout lacks."""
    study = submit(**NO_FIT)
    text = Page(client.get(study["links"]["page"]).text).text
    change = study["plan"]["smallest_change"]["change"]
    assert 0 < text.find("Nothing fits.") < text.find(change) < text.find("Why each layout fails")


@pytest.mark.parametrize("path", ["/", "report"])
def test_pages_load_only_what_is_served_here(sqlite_service: Service, path: str) -> None:
    """Every script, style and icon is there, for ever under its address; nothing stands inline."""
    client = connect(sqlite_service)
    if path == "report":
        path = client.post("/v1/studies", json=BERT).json()["links"]["page"]
    page = Page(client.get(path).text)
    assert page.loads
    for address in page.loads:
        assert address.startswith("/assets/")
        answered = client.get(address)
        assert answered.status_code == 200
        assert answered.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "style" not in page.attributes
    assert "style" not in page.elements
    assert not [name for name in page.attributes if name.startswith("on")]


def test_a_service_under_a_path_links_under_it(sqlite_service: Service) -> None:
    """Links, assets and Location carry the root path that a proxy shows."""
    client = connect(sqlite_service, root_path="/tuner")
    made = client.post("/v1/studies", json=BERT)
    assert made.headers["location"].startswith("/tuner/v1/studies/")
    page = Page(client.get("/").text)
    assert all(address.startswith("/tuner/assets/") for address in page.loads)
    assert made.json()["links"]["page"] in page.links


def test_every_page_stays_under_its_path(sqlite_service: Service) -> None:
    """What begins with a slash in an attribute carries the root path: links, forms, what scripts fetch."""
    client = connect(sqlite_service, root_path="/tuner")
    made = client.post("/v1/profiles", json=profile()).json()["id"]
    ids = [client.post("/v1/studies", json=TINY | {"name": name}).json()["id"] for name in "ab"]
    paths = [
        "/", "/compare", f"/compare?ids={','.join(ids)}", "/crossovers", "/profiles", f"/profiles/{made}",
        "/clusters", "/clusters/piz-daint", "/workers", "/models/tiny-gpt/history", "/models/none/history",
        f"/studies/{ids[0]}", "/parts/workers", f"/parts/studies?ids={ids[0]}", "/nowhere",
    ]  # fmt: skip
    for path in paths:
        shown = client.get(path, headers=HTML).text
        found = re.findall(r'(?:href|src|action|content|data-[a-z]+)="(/[^"]*)"', shown)
        assert found or path == "/parts/workers", path
        assert [address for address in found if not address.startswith("/tuner/")] == [], path


def test_the_index_lists_and_finds_studies(client: TestClient, submit: Submit, clock: Clock) -> None:
    """The newest first, by part of the name, a page at a time."""
    for number in range(27):
        clock.forward(seconds=1)
        submit(name=f"study {number:02}")
    first = client.get("/", headers=HTML).text
    assert "study 26" in first
    assert "study 01" not in first
    older = next(link for link in Page(first).links if "cursor=" in link)
    assert "study 01" in client.get(older.partition("#")[0]).text
    assert "study 26" in client.get("/?name=TINY-g&status=done").text
    found = Page(client.get("/", params={"name": "Y 13"}).text).text
    assert "study 13" in found
    assert "study 14" not in found
    assert "No study has “zzz” in its name or model" in Page(client.get("/?name=zzz").text).text


def test_a_person_reads_a_problem_as_a_page_and_a_program_as_json(sqlite_client: TestClient) -> None:
    """Browsers name text/html; addresses under /v1 answer with documents to everyone."""
    shown = sqlite_client.get("/studies/nothing", headers=HTML)
    assert (shown.status_code, shown.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "Not found" in shown.text
    for path, headers in (("/studies/nothing", {}), ("/v1/studies/nothing", HTML)):
        told = sqlite_client.get(path, headers=headers)
        assert told.headers["content-type"] == "application/problem+json"


def test_no_page_breaks_on_what_an_address_may_hold(client: TestClient) -> None:
    """NUL, quotes, wildcards, markup, half a character, long names: an answer in words, on both databases."""
    odd = ["%00", "%25_%5C", "'", "%22%3E%3Cb%3E", "%ff", "..", "%F0%9F%98%80", "x" * 190, "0" * 64]
    places = [
        "/?name={}", "/?cursor={}", "/?status={}", "/parts/studies?ids={},a", "/compare?ids={},a",
        "/crossovers?studies={},a", "/profiles?text={}", "/profiles?cursor={}", "/profiles/{}",
        "/clusters/{}", "/clusters?cursor={}", "/workers?cursor={}", "/workers?show={}",
        "/models/{}/history", "/studies/{}", "/v1/studies?name={}", "/v1/jobs?pool={}",
    ]  # fmt: skip
    broken = {
        path: answer.status_code
        for place in places
        for text in odd
        if (answer := client.get(path := place.format(text), headers=HTML)).status_code not in {200, 404, 422}
        or "<b>" in answer.text
    }
    assert broken == {}


@pytest.mark.parametrize("name", NAMES)
def test_assets_travel_compressed(sqlite_client: TestClient, name: str) -> None:
    """Plotly's script is a third as large on the way."""
    path = asset(name).address("")
    plain = sqlite_client.get(path, headers={"Accept-Encoding": "identity"})
    assert plain.text == asset(name).text
    assert gzip.decompress(asset(name).compressed) == plain.content
    assert sqlite_client.get(path).headers["content-encoding"] == "gzip"
    assert sqlite_client.get(f"/assets/0/{name}").status_code == 404
