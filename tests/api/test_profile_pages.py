"""Do the pages of profiles and clusters say what was measured, where, and who rests on it?"""

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.service import Service
from profiles import library
from tests.api.conftest import TINY, Clock, connect
from tests.api.life.pool import LINK, profile
from tests.api.page import Page
from tests.profiles.test_cluster import OVERLAP


def measured(**environment: Any) -> dict[str, Any]:
    """The profile with a machine, spreads and measured bytes."""
    made = profile()
    made["timings"]["environment"] = {"device": "A fast one", "software": {"torch": "2.9"}} | environment
    for entry in made["timings"]["types"]:
        for point in entry["points"]:
            point |= {"spread": 0.031, "repeats": 20, "activation_bytes": 5_000_000}
    return made


def test_a_profile_is_listed_and_read(client: TestClient, clock: Clock) -> None:
    """Newest first, found by model or device; the page has its figures, its origin and the studies on it."""
    assert "No profiles yet" in Page(client.get("/profiles").text).text
    made = client.post("/v1/profiles", json=measured()).json()
    clock.forward(seconds=1)
    newer = client.post("/v1/profiles", json=measured(device="Another")).json()
    study = client.post("/v1/studies", json=TINY | {"model": {"profile": made["id"]}, "name": "on it"}).json()
    links = [link for link in Page(client.get("/profiles?text=TINY").text).links if "/profiles/" in link]
    assert links == [f"/profiles/{newer['id']}", f"/profiles/{made['id']}"]
    assert "No profile has “h100”" in Page(client.get("/profiles?text=h100").text).text
    page = Page(client.get(f"/profiles/{made['id']}").text)
    for words in ("tiny-gpt on cpu", "A fast one", "torch 2.9", "3.1 %", "5 MB", "of the roof", "measured"):
        assert words in page.text.replace("\N{NO-BREAK SPACE}", " "), words
    assert study["links"]["page"] in page.links
    assert "No study rests on it yet" in Page(client.get(f"/profiles/{newer['id']}").text).text


def test_the_list_of_profiles_has_pages(sqlite_client: TestClient) -> None:
    """Twenty-five on each, also of equal moments."""
    for number in range(27):
        sqlite_client.post("/v1/profiles", json=measured(device=f"device {number}"))
    first = Page(sqlite_client.get("/profiles").text)
    older = next(link for link in first.links if "cursor=" in link)
    second = Page(sqlite_client.get(older).text)
    found = {
        link for page in (first, second) for link in page.links if re.search("/profiles/[0-9a-f]{64}", link)
    }
    assert len(found) == 27
    assert sqlite_client.get("/profiles?cursor=nonsense").status_code == 422
    assert sqlite_client.get(f"/profiles/{'0' * 64}").status_code == 404


def test_a_profile_of_three_hundred_types_has_pages(sqlite_client: TestClient) -> None:
    """Six types are drawn, forty stand in the table."""
    made = profile()
    blocks = [layer for layer in made["description"]["layers"] if layer["kind"] == "block"]
    others = [layer for layer in made["description"]["layers"] if layer["kind"] != "block"]
    many = [blocks[0] | {"name": f"layers.{n}", "type": f"block.{n}"} for n in range(300)]
    made["description"]["layers"] = others[:1] + many + others[1:]
    timed = {entry["type"]: entry for entry in made["timings"]["types"]}
    made["timings"]["types"] = [entry for name, entry in timed.items() if name != "block"] + [
        timed["block"] | {"type": layer["type"]} for layer in many
    ]
    identifier = sqlite_client.post("/v1/profiles", json=made).json()["id"]
    shown = sqlite_client.get(f"/profiles/{identifier}").text
    assert len(shown) < 300_000
    assert shown.count('scope="rowgroup"') == 40
    assert "The 6 types that take longest are drawn; the table has all 303" in Page(shown).text
    last = sqlite_client.get(f"/profiles/{identifier}?first=280").text
    assert "Types 281 to 303 of 303" in Page(last).text


def test_an_unknown_device_has_no_roof(sqlite_client: TestClient) -> None:
    """Its name is not in the library: the rest is there."""
    made = profile()
    made["timings"]["accelerator"] = "<b>my own</b>"
    shown = sqlite_client.get(f"/profiles/{sqlite_client.post('/v1/profiles', json=made).json()['id']}").text
    assert "There is no data sheet of <b>my own</b>" in Page(shown).text
    assert "<b>my own" not in shown


@pytest.mark.parametrize("name", library.names("clusters"))
def test_every_shipped_cluster_has_a_page(sqlite_client: TestClient, name: str) -> None:
    """With latency, bandwidth and where both are from."""
    page = Page(sqlite_client.get(f"/clusters/{name}").text)
    assert f"{name} · Chimera Tuner" in page.text
    assert "Between nodes" in page.text
    assert library.load_cluster(name).link.source[:60] in page.text


def test_a_posted_cluster_shows_what_was_measured_of_its_links(sqlite_service: Service) -> None:
    """Points and the fitted line, and how far they are apart."""
    client = connect(sqlite_service)
    assert "None yet" in Page(client.get("/clusters").text).text
    document = library.load_cluster("local-cpu").model_dump(mode="json", exclude_none=True)
    link = LINK | {"overlap": OVERLAP}
    document |= {"name": "<i>mine</i>", "node": document["node"] | {"link": link}}
    made = client.post("/v1/clusters", json=document).json()
    assert f"/clusters/{made['id']}" in Page(client.get("/clusters").text).links
    shown = client.get(f"/clusters/{made['id']}").text
    assert "<i>mine" not in shown
    assert shown.count("<circle") == 2
    assert "Residual, median" in shown
    assert "computation takes 40.0 % longer (spread 5.0 %)" in Page(shown).text
    assert "too small to tell" not in shown
    assert client.get("/clusters/nothing").status_code == 404
