"""Do studies stand side by side: what was asked, what was answered, and why there may be nothing to show?"""

import pytest
from starlette.testclient import TestClient

from api.service import Service
from tests.api.conftest import TINY, connect
from tests.api.life.pool import MEASURED, Pool
from tests.api.page import Page

LARGE = TINY | {"model": "gpt2-xl", "devices": 1}


@pytest.fixture
def three(sqlite_client: TestClient) -> list[str]:
    """A study, one of twice the devices, and one that fits nowhere."""
    one, twice = TINY | {"name": "one"}, TINY | {"devices": 4, "name": "twice"}
    asked = [one, twice, LARGE | {"name": "nowhere"}]
    return [sqlite_client.post("/v1/studies", json=each).json()["id"] for each in asked]


def test_what_differs_stands_first(sqlite_client: TestClient, three: list[str]) -> None:
    """Then the answers, the figures with their differences, and pictures for both."""
    one, twice, _ = three
    shown = sqlite_client.get("/compare", params={"ids": f"{one},{twice}"}).text
    text = Page(shown).text
    places = [text.find(words) for words in ("What was asked", "Devices24", "What was answered")]
    assert -1 not in places
    assert places == sorted(places)
    assert "A one" in text
    assert "▲" in text
    assert shown.count('class="plot"') == 2
    assert shown.count('class="stacked"') == 4
    assert shown.index("Mini-batch") > shown.index("options that are equal in all")


def test_ids_may_be_named_one_by_one_and_unknown_ones_are_told(
    sqlite_client: TestClient, three: list[str]
) -> None:
    """As the boxes of the list send them; what is there is compared all the same."""
    answer = sqlite_client.get("/compare", params={"ids": [*three, "nonsense"]})
    text = Page(answer.text).text
    assert answer.status_code == 200
    assert "3 studies side by side" in text
    assert "There is no study “nonsense”" in text
    assert "Nothing fits" in text
    assert "The smallest change that helps" in text


def test_too_few_and_too_many_are_said_in_words(sqlite_client: TestClient, three: list[str]) -> None:
    """The page says what to do."""
    more = [sqlite_client.post("/v1/studies", json=TINY).json()["id"] for _ in range(2)]
    words = {0: "Tick two to 4 studies", 1: "has nothing beside it", 5: "1 more is left out"}
    for count, told in words.items():
        answer = sqlite_client.get("/compare", params={"ids": ",".join([*three, *more][:count])})
        assert answer.status_code == 200
        assert told in Page(answer.text).text


def test_ids_of_nothing_are_not_found(sqlite_client: TestClient) -> None:
    """404, with the page that tells how it goes."""
    answer = sqlite_client.get("/compare?ids=a,b")
    assert answer.status_code == 404
    assert "There is no study “a”, “b”" in Page(answer.text).text


def test_a_study_that_goes_on_is_told_with_what_it_waits_for(sqlite_service: Service) -> None:
    """Its request is compared before there is an answer."""
    pool = Pool(sqlite_service)
    pool.connect()
    client = connect(sqlite_service)
    ids = [client.post("/v1/studies", json=each).json()["id"] for each in (MEASURED, TINY)]
    text = Page(client.get("/compare", params={"ids": ids}).text).text
    assert "has no answer yet: it waits for" in text
    assert "Mini-batch168" in text


def test_studies_in_turns_show_both_ways_over_time(sqlite_client: TestClient) -> None:
    """The speed-up of POST /v1/crossovers, two pictures on one axis, and a link from the comparison."""
    pinned = TINY | {"depth": 2, "width": 1, "schedules": ["dapple", "gpipe"]}
    ids = [sqlite_client.post("/v1/studies", json=pinned | {"name": name}).json()["id"] for name in "ab"]
    told = sqlite_client.post("/v1/crossovers", json={"studies": ids}).json()
    path = f"/crossovers?studies={','.join(ids)}"
    assert path in Page(sqlite_client.get("/compare", params={"ids": ids}).text).links
    shown = sqlite_client.get(path).text
    text = Page(shown).text
    assert f"{told['predicted_speedup']:.2f} times as fast" in text
    assert shown.count('class="plot"') == 2
    assert "3 iterations of every job" in text


@pytest.mark.parametrize(
    ("studies", "status", "words"),
    [("", 200, "name them"), ("a,b", 404, "there is no study 'a'"), ("x", 422, "studies")],
)
def test_what_cannot_take_turns_is_said_in_words(
    sqlite_client: TestClient, studies: str, status: int, words: str
) -> None:
    """On the page itself."""
    answer = sqlite_client.get(f"/crossovers?studies={studies}")
    assert answer.status_code == status
    assert words in Page(answer.text).text
