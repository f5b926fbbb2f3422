"""Is the choice of a study shown over time, and is it said why where it is not?"""

import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.reports import timeline as embedding
from api.reports.report import render_report
from profiles import library
from tests.api.conftest import BERT, NO_FIT, TINY, Submit
from tests.api.page import Page
from tests.api.test_documents import small_profile
from tuner import enactment
from tuner.planning import answer
from tuner.request import read_request


def embedded(page: str) -> dict[str, Any] | None:
    """The timeline that a report holds."""
    found = re.search(r'<script type="application/json" id="timeline-document">(.*?)</script>', page)
    return json.loads(found[1]) if found else None


def test_the_timeline_takes_as_long_as_the_plan_says(client: TestClient, submit: Submit) -> None:
    """Its columns have an entry for each operation."""
    study = submit(**BERT)
    chosen = study["plan"]["chosen"]
    answered = client.get(study["links"]["timeline"])
    assert answered.status_code == 200
    document = answered.json()
    assert document["makespan"] == chosen["predicted"]["iteration_s"]
    assert document["schedule"] == chosen["schedule"]
    assert len({len(column) for column in document["operations"].values()}) == 1
    assert client.get(study["links"]["timeline"]).content == answered.content


def test_the_trace_is_a_file_for_perfetto(client: TestClient, submit: Submit) -> None:
    """Trace Event JSON under a name, with a process for each rank."""
    study = submit(**BERT)
    answered = client.get(study["links"]["trace"])
    assert answered.headers["content-type"] == "application/json"
    assert answered.headers["content-disposition"] == (
        f'attachment; filename="chimera-{study["id"]}.trace.json"'
    )
    events = answered.json()["traceEvents"]
    assert {event["pid"] for event in events} == set(range(study["plan"]["chosen"]["depth"]))
    last = max(event["ts"] + event["dur"] for event in events if event["ph"] == "X")
    assert last == pytest.approx(1e6 * study["plan"]["chosen"]["predicted"]["iteration_s"], abs=0.01)


@pytest.mark.parametrize("part", ["timeline", "trace"])
def test_where_nothing_fits_there_is_no_timeline(client: TestClient, submit: Submit, part: str) -> None:
    """409 with the smallest change; the report opens without it."""
    study = submit(**NO_FIT)
    refused = client.get(study["links"][part])
    assert refused.status_code == 409
    assert study["plan"]["smallest_change"]["change"] in refused.json()["detail"]
    assert "Timeline" not in Page(client.get(study["links"]["report"]).text).text


@pytest.mark.parametrize("part", ["timeline", "trace"])
def test_an_unknown_study_has_none(client: TestClient, part: str) -> None:
    """404."""
    assert client.get(f"/v1/studies/nothing/{part}").status_code == 404


def test_too_long_a_program_is_refused_with_its_numbers(
    client: TestClient, submit: Submit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """409, and the report in one file says the same."""
    study = submit()
    monkeypatch.setattr(enactment, "MOST_OPERATIONS", 1)
    refused = client.get(study["links"]["timeline"])
    assert refused.status_code == 409
    assert "at most 1 are simulated" in refused.json()["detail"]
    assert "at most 1 are simulated" in Page(client.get(study["links"]["report"]).text).text


def test_a_stored_profile_is_used(client: TestClient) -> None:
    """A study of a profile has its timeline too."""
    stored = client.post("/v1/profiles", json=small_profile().model_dump(mode="json")).json()
    study = client.post("/v1/studies", json=TINY | {"model": {"profile": stored["id"]}}).json()
    document = client.get(study["links"]["timeline"]).json()
    assert document["makespan"] == study["plan"]["chosen"]["predicted"]["iteration_s"]


def test_the_page_fetches_its_timeline_and_links_the_trace(client: TestClient, submit: Submit) -> None:
    """By the addresses of the study, without simulating for those who do not look."""
    study = submit(**BERT)
    page = client.get(study["links"]["page"]).text
    assert f'data-source="{study["links"]["timeline"]}"' in page
    assert study["links"]["trace"] in Page(page).links
    assert embedded(page) is None


def test_the_report_in_one_file_holds_its_timeline(client: TestClient, submit: Submit) -> None:
    """The document that the service gives."""
    study = submit(**BERT)
    held = embedded(client.get(study["links"]["report"]).text)
    assert held == client.get(study["links"]["timeline"]).json()


def test_a_timeline_too_large_for_one_file_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its size, and where to see it."""
    request = read_request(BERT)
    plan = answer(request, library)
    monkeypatch.setattr(embedding, "MOST_EMBEDDED_BYTES", 1_000)
    left_out = embedding.embedded_timeline(request, plan, library)
    assert isinstance(left_out, str)
    text = Page(render_report(plan, standalone=True, timeline=left_out)).text
    assert "Not shown: the timeline has" in text
    assert "open the study on a service" in text


def test_the_longest_timeline_fits_into_one_file() -> None:
    """65,536 operations and Plotly's script stay under 8 MB, or the timeline is left out."""
    request = read_request(
        BERT | {"mini_batch_size": 1024, "schedules": "chimera", "depth": 32, "micro_batch_size": 1}
    )
    plan = answer(request, library)
    timeline = embedding.embedded_timeline(request, plan, library)
    assert timeline is not None
    assert len(render_report(plan, standalone=True, timeline=timeline).encode()) < 8_000_000
