"""Can the page of a study ask its question again, so that only what is changed makes a difference?"""

import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.reports.report import render_report
from profiles import library
from tests.api.conftest import BERT, NO_FIT, TINY, Submit
from tests.api.test_documents import small_profile
from tuner.planning import answer
from tuner.request import read_request


def held(page: str, name: str) -> dict[str, Any]:
    """A document that the page gives to its script."""
    found = re.search(rf'<script type="application/json" id="what-if-{name}">(.*?)</script>', page)
    assert found
    document: dict[str, Any] = json.loads(found[1])
    return document


@pytest.mark.parametrize(
    "options",
    [BERT | {"search": "exhaustive", "why": "depth=4", "schedules": "dapple,gpipe", "margin": 0.1}, NO_FIT],
    ids=["chosen", "nothing"],
)
def test_the_question_of_a_study_is_answered_as_it_was(
    client: TestClient, submit: Submit, options: dict[str, Any]
) -> None:
    """The same choice; what the page shows of it are the plan's figures."""
    study = submit(**options)
    page = client.get(study["links"]["page"]).text
    again = client.post("/v1/plans", json=held(page, "request"))
    assert again.status_code == 200, again.text
    assert again.json()["chosen"] == study["plan"]["chosen"]
    stored, chosen = held(page, "stored"), study["plan"]["chosen"]
    if chosen is None:
        assert stored["none"] == study["plan"]["smallest_change"]["change"]
    else:
        assert stored["iteration_s"] == chosen["predicted"]["iteration_s"]
        assert stored["free_bytes"] == study["plan"]["cluster"]["memory_bytes"] - chosen["peak_memory_bytes"]


def test_what_was_measured_is_asked_with(client: TestClient) -> None:
    """A stored profile by its id; another memory then changes the answer."""
    stored = client.post("/v1/profiles", json=small_profile().model_dump(mode="json")).json()
    study = client.post("/v1/studies", json=TINY | {"model": {"profile": stored["id"]}}).json()
    asked = held(client.get(study["links"]["page"]).text, "request")
    assert asked["model"] == {"profile": stored["id"]}
    changed = client.post("/v1/plans", json=asked | {"device_memory_bytes": 1_000_000}).json()
    assert changed["chosen"] is None
    assert changed["cluster"]["memory_bytes"] == 1_000_000


def test_a_report_in_one_file_asks_nothing() -> None:
    """There is no service to ask."""
    page = render_report(answer(read_request(BERT), library), standalone=True)
    assert 'id="what-if"' not in page
