"""Is the choice of a study shown over time, and is it said why where it is not?"""

import gzip
import json
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.computing.timelines import gzipped
from api.reports import timeline as embedding
from api.reports.report import render_report
from api.service import Service
from api.studies.kept_timelines import KeptTimelines
from profiles import library
from tests.api.conftest import BERT, NO_FIT, TINY, Submit
from tests.api.life.pool import MEASURED, Pool, result_of
from tests.api.page import Page
from tests.api.test_documents import small_profile
from tests.api.work.factories import client_with, post_finish
from tuner import enactment
from tuner.attachments import Attachment
from tuner.enactment import configuration_of, enact
from tuner.messages import Done
from tuner.planning import answer
from tuner.request import read_request
from tuner.traces import trace_json


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


def test_every_candidate_has_its_timeline(client: TestClient, submit: Submit) -> None:
    """By its place in the ranked list, with what its ranks hold; the first of it is the choice."""
    study = submit(**BERT)
    timeline, candidates = study["links"]["timeline"], study["plan"]["candidates"]
    assert client.get(timeline, params={"candidate": 1}).content == client.get(timeline).content
    for place in (2, 3):
        other = client.get(timeline, params={"candidate": place}).json()
        predicted = candidates[place - 1]["predicted"]
        assert predicted["simulated"]
        assert other["makespan"] == predicted["iteration_s"]
    memory, chosen = client.get(timeline).json()["memory"], study["plan"]["chosen"]
    for rank, peak in zip(chosen["memory"], memory["peak_bytes"], strict=True):
        assert peak == rank["total_bytes"] - rank["reserve_bytes"]
        assert memory["always_bytes"][rank["rank"]] <= peak
    assert memory["capacity_bytes"] == study["plan"]["cluster"]["memory_bytes"]
    assert client.get(study["links"]["trace"], params={"candidate": 2}).status_code == 200


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        ({"candidate": 99}, 404, "the plan lists"),
        ({"candidate": 0}, 422, "candidate"),
        ({"trial": 1}, 404, "has no trial 1"),
        ({"candidate": 1, "trial": 1}, 422, "ask for one"),
    ],
)
def test_a_timeline_that_is_not_there_is_told(
    client: TestClient, submit: Submit, asked: dict[str, int], status: int, told: str
) -> None:
    """As a problem, with the numbers."""
    refused = client.get(submit()["links"]["timeline"], params=asked)
    assert (refused.status_code, refused.headers["content-type"]) == (status, "application/problem+json")
    assert told in refused.json()["detail"]


def test_a_timeline_is_simulated_once(client: TestClient, service: Service, submit: Submit) -> None:
    """Who has it is told so; equal questions share it, whatever their studies are called."""
    first, second = submit(), submit(name="again")
    answered = client.get(first["links"]["timeline"])
    kept = service.timelines.kept_bytes
    tag = answered.headers["etag"]
    assert kept > 0
    assert client.get(second["links"]["timeline"]).headers["etag"] == tag
    assert service.timelines.kept_bytes == kept
    same = client.get(first["links"]["timeline"], headers={"If-None-Match": tag})
    assert (same.status_code, same.content) == (304, b"")
    plain = client.get(first["links"]["timeline"], headers={"Accept-Encoding": "identity"})
    assert plain.content == answered.content


def test_what_is_kept_is_bounded() -> None:
    """The one that was not looked at for longest goes first; one that is too large is given all the same."""
    kept = KeptTimelines(most_bytes=70)
    documents = {name: gzipped({"name": name}) for name in ("a", "b", "c")}
    for name in ("a", "b", "a", "c"):
        assert json.loads(gzip.decompress(kept.find(name, lambda name=name: documents[name]))) == {
            "name": name
        }
    made: list[str] = []
    for name in ("a", "c", "b"):
        kept.find(name, lambda name=name: made.append(name) or documents[name])
    assert made == ["b"]
    assert json.loads(
        gzip.decompress(kept.find("long", lambda: gzipped({"all": [number**9 for number in range(99)]})))
    )
    assert 0 < kept.kept_bytes <= 70


def test_a_trial_shows_what_it_recorded(sqlite_service: Service) -> None:
    """Its trace as columns, with the memory of its configuration; another trial has none."""
    pool, client = Pool(sqlite_service), client_with(sqlite_service, "submit")
    pool.connect()
    study = client.post("/v1/studies", json=MEASURED).json()
    request = read_request({key: value for key, value in MEASURED.items() if key != "refine"})
    plan = answer(request, library)
    assert plan.chosen
    ran = enact(request, configuration_of(plan.chosen), library)
    traces = iter([Attachment.pack("trace.json", trace_json(ran)), Attachment.pack("trace.json", "{}")])
    while job := pool.claim():
        trace = next(traces, None) if job["kind"] == "trial" else None
        post_finish(pool.client, job, Done(result=result_of(job)), attachments=(trace,) if trace else ())
    timeline = study["links"]["timeline"]
    recorded = client.get(timeline, params={"trial": 1}).json()
    assert recorded["makespan"] == pytest.approx(ran.makespan_s, rel=1e-5)
    assert recorded["critical_path"] == []
    saved = client.get(study["links"]["trace"], params={"trial": 1})
    assert saved.json() == json.loads(trace_json(ran))
    assert saved.headers["content-disposition"].endswith('-trial-1.trace.json"')
    assert saved.request.url.query.decode() in client.get(study["links"]["page"]).text
    broken, missing = (client.get(timeline, params={"trial": number}) for number in (2, 3))
    assert (broken.status_code, missing.status_code) == (422, 404)
    assert "run the trial again" in broken.json()["detail"]
    assert "trial 3 has no trace" in missing.json()["detail"]
