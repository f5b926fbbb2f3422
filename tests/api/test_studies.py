"""Are studies kept, listed, found again and removed, on both databases?"""

from datetime import datetime

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

from api.service import Service
from api.storage.identifiers import new_identifier
from api.storage.tables import Study, StudyStatus
from profiles import library
from profiles.json_text import canonical_json
from tests.api.conftest import BERT, NO_FIT, TINY, Clock, Submit
from tuner.planning import answer
from tuner.request import read_request


def test_a_study_is_answered_at_once(client: TestClient) -> None:
    """201 with the plan, the request as it was sent, and addresses of its parts that answer."""
    answered = client.post("/v1/studies", json=BERT | {"name": "night run"})
    assert answered.status_code == 201
    study = answered.json()
    assert answered.headers["location"] == study["links"]["self"] == f"/v1/studies/{study['id']}"
    assert (study["status"], study["waiting_for"], study["name"]) == ("done", None, "night run")
    assert study["request"] == BERT
    assert study["created_by"] == "local"
    for part in ("self", "page", "candidates", "rejected", "trials", "report", "timeline", "trace"):
        assert client.get(study["links"][part]).status_code == 200, part
    assert client.get(study["links"]["export"].format(format="env")).status_code == 200


def test_the_stored_plan_is_the_tuners(client: TestClient, submit: Submit) -> None:
    """What comes back from the database has the bytes that `chimera plan --json` prints, without search_s."""
    study = submit(**BERT)
    read = client.get(study["links"]["self"]).json()
    assert read == study
    assert canonical_json(read["plan"]) == answer(read_request(BERT), library).to_json()


def test_that_nothing_fits_is_an_answer(client: TestClient) -> None:
    """201, nothing chosen, the smallest change; exports are refused with 409."""
    study = client.post("/v1/studies", json=NO_FIT).json()
    assert study["plan"]["chosen"] is None
    assert study["answer"] is None
    assert study["plan"]["smallest_change"]["change"]
    for format in ("megatron", "env", "json"):
        refused = client.get(f"/v1/studies/{study['id']}/export/{format}")
        assert refused.status_code == 409
        assert study["plan"]["smallest_change"]["change"] in refused.json()["detail"]


def test_waiting_is_accepted_within_bounds(client: TestClient, submit: Submit) -> None:
    """`wait` may be given on POST and GET, up to 30 seconds; an answered study does not make anyone wait."""
    assert client.post("/v1/studies?wait=30", json=TINY).status_code == 201
    assert client.get(submit()["links"]["self"], params={"wait": 1.5}).status_code == 200
    for wrong in ("31", "-1", "nan", "soon"):
        assert client.post(f"/v1/studies?wait={wrong}", json=TINY).status_code == 422


def test_trials_are_refused_while_there_is_no_worker(client: TestClient) -> None:
    """`refine` is understood, and nothing is stored."""
    refused = client.post("/v1/studies", json=TINY | {"refine": {"trials": 3}})
    assert refused.status_code == 422
    assert "worker" in refused.json()["detail"]
    assert client.post("/v1/studies", json=TINY | {"refine": None}).status_code == 201
    assert len(client.get("/v1/studies").json()["items"]) == 1


def test_an_architecture_that_arithmetic_does_not_know_needs_a_worker(client: TestClient) -> None:
    """422 that says so and what to do instead, and nothing is stored."""
    config = {"model_type": "never-heard-of", "hidden_size": 64}
    refused = client.post("/v1/studies", json=TINY | {"model": {"config": config}, "sequence_length": 128})
    assert refused.status_code == 422
    detail = refused.json()["detail"]
    assert "never-heard-of" in detail
    assert "No worker is connected" in detail
    assert "/v1/profiles" in detail
    assert client.get("/v1/studies").json()["items"] == []


def test_studies_are_paged_from_the_newest(client: TestClient, submit: Submit, clock: Clock) -> None:
    """Pages follow each other without gaps or repeats, also while new studies come in."""
    made = []
    for number in range(5):
        clock.forward(seconds=1)
        made.append(submit(name=f"number {number}")["id"])
    seen: list[str] = []
    cursor = None
    for size in (2, 2, 1):
        page = client.get(
            "/v1/studies", params={"limit": 2, "cursor": cursor} if cursor else {"limit": 2}
        ).json()
        assert len(page["items"]) == size
        seen += [study["id"] for study in page["items"]]
        cursor = page["next"]
        clock.forward(seconds=1)
        submit(name="in between")
    assert cursor is None
    assert seen == made[::-1]


def test_lists_leave_out_requests_and_plans(client: TestClient, submit: Submit) -> None:
    """An entry holds the answer in a few keys."""
    study = submit()
    (entry,) = client.get("/v1/studies").json()["items"]
    assert set(study) - set(entry) == {"request", "plan", "refine", "tuning"}
    chosen = study["plan"]["chosen"]
    assert entry["answer"]["width"] == chosen["width"]
    assert entry["answer"]["throughput_samples_per_s"] == chosen["predicted"]["throughput_samples_per_s"]


def test_studies_are_filtered(client: TestClient, submit: Submit) -> None:
    """By status, model and part of the name; a wildcard in a name is a character."""
    tiny, bert = submit(name="Night_run 100%"), submit(**BERT)
    found = {
        filters: [study["id"] for study in client.get(f"/v1/studies?{filters}").json()["items"]]
        for filters in (
            "model=bert-48",
            "name=night_RUN",
            "name=0%25",
            "name=%25n",
            "status=done",
            "status=failed",
            "name=Än",
        )
    }
    assert found == {
        "model=bert-48": [bert["id"]],
        "name=night_RUN": [tiny["id"]],
        "name=0%25": [tiny["id"]],
        "name=%25n": [],
        "status=done": [bert["id"], tiny["id"]] if bert["id"] > tiny["id"] else [tiny["id"], bert["id"]],
        "status=failed": [],
        "name=Än": [],
    }
    greek = submit(name="Ärger mit Σ")
    for name in ("Ärger", "mit Σ"):
        assert [each["id"] for each in client.get("/v1/studies", params={"name": name}).json()["items"]] == [
            greek["id"]
        ]
    assert client.get("/v1/studies?status=sleeping").status_code == 422


def test_a_study_that_is_done_cannot_be_cancelled(client: TestClient, submit: Submit) -> None:
    """409; one that is not final yet is cancelled."""
    study = submit()
    assert client.post(f"/v1/studies/{study['id']}/cancel").status_code == 409


def test_a_study_in_the_queue_is_cancelled(client: TestClient, submit: Submit, service: Service) -> None:
    """It ends as cancelled and waits for nothing."""
    study = submit()
    with service.database.writing() as session:
        session.execute(update(Study).values(status=StudyStatus.QUEUED))
    cancelled = client.post(f"/v1/studies/{study['id']}/cancel").json()
    assert (cancelled["status"], cancelled["waiting_for"]) == ("cancelled", None)
    assert client.get(study["links"]["self"]).json()["status"] == "cancelled"


def test_a_deleted_study_is_gone(client: TestClient, submit: Submit) -> None:
    """204 once, 404 afterwards, for every address of it."""
    study = submit()
    assert client.delete(f"/v1/studies/{study['id']}").status_code == 204
    assert client.delete(f"/v1/studies/{study['id']}").status_code == 404
    for part in ("", "/candidates", "/rejected", "/trials", "/report", "/export/env"):
        assert client.get(f"/v1/studies/{study['id']}{part}").status_code == 404, part
    assert client.post(f"/v1/studies/{study['id']}/cancel").status_code == 404


@pytest.mark.parametrize("name", ["", " ", "\u3000", "x" * 201, "two\nlines", 7, ["a"]])
def test_a_name_is_one_line(client: TestClient, name: object) -> None:
    """Anything else is refused before the search."""
    refused = client.post("/v1/studies", json=TINY | {"name": name})
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("name:")


def test_identifiers_sort_by_time_and_differ() -> None:
    """A later study has a later id; two of one moment differ."""
    clock = Clock()
    earlier = [new_identifier(clock()) for _ in range(50)]
    clock.forward(seconds=0.001)
    later = new_identifier(clock())
    assert len(set(earlier)) == 50
    assert max(earlier) < later
    assert len(later) == 26


def test_moments_are_told_in_utc(submit: Submit, clock: Clock) -> None:
    """With their zone, in ISO 8601."""
    assert datetime.fromisoformat(submit()["created_at"]) == clock()
