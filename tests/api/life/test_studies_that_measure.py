"""Does a study profile what is not known, try what can win, and end with what was measured?"""

import json
from typing import Any

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from api.operations.metrics import REGISTRY
from api.service import Service
from api.storage.tables import JobRow, StudyTrial
from profiles.library import load_model_preset
from tests.api.conftest import TINY, Clock, connect
from tests.api.life.pool import LINK, MEASURED, Pool, profile, settle
from tests.api.work.factories import client_with
from tuner.messages import Cancelled, Failed


@pytest.fixture
def pool(service: Service) -> Pool:
    """A pool of one worker that is there, on each database."""
    made = Pool(service)
    made.connect()
    return made


@pytest.fixture
def sqlite_pool(sqlite_service: Service) -> Pool:
    """The same where the database makes no difference."""
    made = Pool(sqlite_service)
    made.connect()
    return made


def begin(client: TestClient, **changes: Any) -> dict[str, Any]:
    """Make a study that measures."""
    answer = client.post("/v1/studies", json=MEASURED | changes)
    assert answer.status_code == 202, answer.text
    study: dict[str, Any] = answer.json()
    assert answer.headers["location"] == study["links"]["self"]
    return study


def read(client: TestClient, study: dict[str, Any]) -> dict[str, Any]:
    """The study as it stands."""
    found: dict[str, Any] = client.get(study["links"]["self"]).json()
    return found


def trials_counted() -> float:
    """How many that went well this process has told Prometheus of."""
    return REGISTRY.get_sample_value("chimera_trials_total", {"status": "ok"}) or 0.0


def test_a_study_measures_and_the_next_one_does_not_measure_again(client: TestClient, pool: Pool) -> None:
    """Model and links once, then trials; the fastest measured is chosen, exported, and told with errors."""
    counted = trials_counted()
    study = begin(client)
    assert study["status"] == "profiling"
    assert "profile_model job" in study["waiting_for"]
    assert "1 connected workers that can do it (bench)" in study["waiting_for"]
    assert pool.work() == 5
    assert sorted(pool.kinds()[:2]) == ["profile_links", "profile_model"]
    done = read(client, study)
    assert (done["status"], done["waiting_for"], done["error"]) == ("done", None, None)
    tuning = done["tuning"]
    assert [trial["status"] for trial in tuning["trials"]] == ["ok"] * 3
    assert trials_counted() == counted + 3
    assert tuning["winner"]["configuration"] == tuning["trials"][0]["configuration"]
    assert tuning["winner"]["throughput_samples_per_s"] == pytest.approx(16 / 0.11)
    assert 0 < tuning["model_error"]["after"] < tuning["model_error"]["before"]
    assert tuning["trials_saved"] == tuning["configurations"] - 3
    assert tuning["stopped"] == "3 of 3 trials were started"
    chosen = done["plan"]["chosen"]
    assert {key: chosen[key] for key in tuning["winner"]["configuration"]} == tuning["winner"][
        "configuration"
    ]
    assert f"CHIMERA_WIDTH={chosen['width']}" in client.get(f"/v1/studies/{study['id']}/export/env").text
    for part in ("page", "report", "timeline", "trace", "candidates"):
        assert client.get(done["links"][part]).status_code == 200, part
    second = begin(client)
    assert second["status"] == "measuring"
    assert pool.work() == 3
    assert pool.kinds()[5:] == ["trial"] * 3
    assert len(set(pool.points())) == 3


def test_a_profile_that_was_asked_for_before_is_taken(sqlite_client: TestClient, sqlite_pool: Pool) -> None:
    """Of the same config.json, with whatever sizes; a study of the stored profile can be tried as well."""
    config = load_model_preset("tiny-gpt").config
    model = {"model": {"config": config}, "sequence_length": 64, "precision": "float32"}
    asked = sqlite_client.post("/v1/profile-jobs", json=model | {"micro_batch_sizes": [1, 2]})
    assert sqlite_pool.work() == 1
    study = begin(sqlite_client, **model)
    assert sqlite_pool.work() == 4
    assert read(sqlite_client, study)["status"] == "done"
    assert "profile_model" not in sqlite_pool.kinds()[1:]
    stored = sqlite_client.get(asked.headers["location"]).json()["result"]["profile"]
    study = begin(sqlite_client, model={"profile": stored})
    assert sqlite_pool.work() == 3
    assert sqlite_pool.done[-1]["payload"]["model"]["config"] == config
    assert read(sqlite_client, study)["tuning"]["winner"]


def test_an_architecture_that_arithmetic_does_not_know_is_measured(
    sqlite_client: TestClient, sqlite_pool: Pool
) -> None:
    """202 without `refine`: a profile, the plan, and no trials."""
    body = TINY | {"model": {"config": {"model_type": "never-heard-of"}}, "sequence_length": 64}
    answer = sqlite_client.post("/v1/studies", json=body)
    assert answer.status_code == 202, answer.text
    assert sqlite_pool.work() == 1
    done = read(sqlite_client, answer.json())
    assert (done["status"], done["tuning"]) == ("done", None)
    assert done["plan"]["chosen"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"refine": {"trials": 0}}, "refine is not valid: trials"),
        ({"refine": {"trials": True}}, "refine is not valid: trials"),
        ({"refine": {}}, "trials"),
        ({"refine": {"trials": 3, "device_seconds": -1}}, "device_seconds"),
        ({"refine": {"trials": 3, "pool": "a pool"}}, "pool"),
        ({"refine": {"trials": 3, "poll": "x"}}, "poll"),
        ({"refine": [3]}, "refine"),
        ({"refine": {"trials": 3, "pool": "gpus"}}, "chimera worker --pool gpus"),
        ({"devices": 4}, "bench has 2 x cpu"),
        ({"cluster": "dgx-h100"}, "2 x h100-80gb"),
        ({"attention": "eager"}, "only 'flash'"),
        ({"rank_order": "data_major"}, "rank_order"),
        ({"model": "tiny-gtp"}, "tiny-gpt"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    sqlite_client: TestClient, sqlite_pool: Pool, change: dict[str, Any], told: str
) -> None:
    """422 that says what is missing, and nothing is stored."""
    refused = sqlite_client.post("/v1/studies", json=MEASURED | change)
    assert refused.status_code == 422, refused.text
    assert told in refused.json()["detail"]
    assert sqlite_client.get("/v1/studies").json()["items"] == []
    assert sqlite_pool.work() == 0


def test_a_profile_that_was_posted_cannot_be_tried(sqlite_client: TestClient, sqlite_pool: Pool) -> None:
    """It has no layers to run; the sentence says what to give instead."""
    posted = sqlite_client.post("/v1/profiles", json=profile()).json()["id"]
    refused = sqlite_client.post("/v1/studies", json=MEASURED | {"model": {"profile": posted}})
    assert refused.status_code == 422
    assert "has no layers to run" in refused.json()["detail"]
    assert sqlite_pool.work() == 0


def test_waiting_ends_with_the_study(sqlite_service: Service) -> None:
    """`wait` on GET returns when the study has ended, or when the time is over."""
    client, pool = connect(sqlite_service), Pool(sqlite_service)
    pool.connect()
    study = begin(client)
    assert client.get(study["links"]["self"], params={"wait": 0.01}).json()["status"] == "profiling"
    pool.work()
    assert client.get(study["links"]["self"], params={"wait": 30}).json()["status"] == "done"


def test_events_are_told_again_from_any_of_them(client: TestClient, pool: Pool) -> None:
    """Numbered without gaps, resumed by Last-Event-ID, 204 once everything was seen."""
    study = begin(client)
    pool.work()
    events = told(client, study)
    assert [number for number, _, _ in events] == list(range(1, len(events) + 1))
    statuses = [data["status"] for _, event, data in events if event == "status"]
    assert statuses == ["queued", "profiling", "searching", "measuring", "done"]
    trials = [(data["number"], data["status"]) for _, event, data in events if event == "trial"]
    assert sorted(trials) == sorted((n, status) for n in (1, 2, 3) for status in ("queued", "ok"))
    assert told(client, study, after=4) == events[4:]
    address = study["links"]["events"]
    assert client.get(address, headers={"Last-Event-ID": str(len(events))}).status_code == 204
    assert client.get(address, headers={"Last-Event-ID": "x"}).status_code == 422
    assert client.get("/v1/studies/none/events").status_code == 404


def told(client: TestClient, study: dict[str, Any], after: int | None = None) -> list[tuple[int, str, Any]]:
    """Number, name and data of every event of a study that has ended."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    answer = client.get(study["links"]["events"], headers=headers)
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((int(lines["id"]), lines["event"], json.loads(lines["data"])))
    return found


def test_trials_are_paged_and_filtered(sqlite_client: TestClient, sqlite_pool: Pool) -> None:
    """In the order in which they were proposed, with why, what it took and the job behind it."""
    study = begin(sqlite_client)
    sqlite_pool.work(3)
    address = study["links"]["trials"]
    first = sqlite_client.get(address, params={"limit": 1}).json()
    assert (first["total"], first["items"][0]["number"], first["items"][0]["status"]) == (2, 1, "ok")
    assert first["items"][0]["by"] == "ranking"
    assert first["items"][0]["device_seconds"] == 6.0
    assert sqlite_client.get(first["items"][0]["links"]["job"]).json()["result"]["status"] == "ok"
    second = sqlite_client.get(address, params={"limit": 1, "cursor": first["next"]}).json()
    assert second["items"][0]["status"] == "queued"
    job = sqlite_pool.claim()
    assert job
    running = sqlite_client.get(address, params={"status": "running"}).json()["items"]
    assert [trial["job"] for trial in running] == [job["id"]]
    assert sqlite_client.get(address, params={"schedule": "none"}).json()["items"] == []
    assert sqlite_client.get(address, params={"status": "lost"}).status_code == 422


@pytest.mark.parametrize("jobs", [0, 2, 4])
def test_a_study_is_cancelled_wherever_it_stands(client: TestClient, pool: Pool, jobs: int) -> None:
    """With its jobs, also the one that runs; what comes back later changes nothing."""
    study = begin(client)
    pool.work(jobs)
    job = pool.claim()
    assert job
    cancelled = client.post(f"/v1/studies/{study['id']}/cancel")
    assert cancelled.json()["status"] == "cancelled"
    pool.finish(job)
    settle(pool.service)
    assert pool.work() == 0
    after = read(client, study)
    assert (after["status"], after["waiting_for"]) == ("cancelled", None)
    assert client.post(f"/v1/studies/{study['id']}/cancel").status_code == 409
    assert client.get(study["links"]["page"]).status_code == 200
    assert client.delete(study["links"]["self"]).status_code == 204
    with pool.service.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(StudyTrial)) == 0


def test_what_another_study_waits_for_is_not_cancelled(sqlite_client: TestClient, sqlite_pool: Pool) -> None:
    """Two studies of one model measure it once, and either may be cancelled."""
    first, second = begin(sqlite_client), begin(sqlite_client)
    sqlite_client.post(f"/v1/studies/{first['id']}/cancel")
    assert sqlite_pool.work() == 5
    assert read(sqlite_client, second)["status"] == "done"
    assert read(sqlite_client, first)["status"] == "cancelled"


def test_a_model_that_cannot_be_measured_fails_the_study(
    sqlite_client: TestClient, sqlite_pool: Pool
) -> None:
    """With the worker's words; links that make no line do not."""
    sqlite_pool.wrong = {
        "profile_links": Failed(message="no line"),
        "profile_model": Failed(message="no such layer"),
    }
    study = begin(sqlite_client)
    assert sqlite_pool.work() == 2
    failed = read(sqlite_client, study)
    assert failed["status"] == "failed"
    assert "no such layer" in failed["error"]
    assert sqlite_client.get(study["links"]["page"]).status_code == 200
    sqlite_pool.wrong.pop("profile_model")
    study = begin(sqlite_client)
    sqlite_pool.work()
    assert read(sqlite_client, study)["status"] == "done"
    notes = [data["message"] for _, event, data in told(sqlite_client, study) if event == "note"]
    assert len(notes) == 1
    assert "no line" in notes[0]


def test_trials_that_give_nothing_end_the_study_all_the_same(
    sqlite_client: TestClient, sqlite_pool: Pool
) -> None:
    """The plan stays as the model made it, and every trial says why."""
    sqlite_pool.wrong = {"trial": Failed(message="the ranks would not start")}
    study = begin(sqlite_client)
    sqlite_pool.work()
    done = read(sqlite_client, study)
    assert (done["status"], done["tuning"]["winner"]) == ("done", None)
    assert done["plan"]["chosen"]
    assert {trial["message"] for trial in done["tuning"]["trials"]} == {"the ranks would not start"}
    assert sqlite_client.get(study["links"]["page"]).status_code == 200


def test_trials_have_the_compression_that_the_plan_chose(
    sqlite_client: TestClient, sqlite_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those allowed; the corrected plan is of that one too, and still says what the others would give."""
    monkeypatch.setitem(LINK["collective"], "bandwidth_bytes_per_s", 1e8)
    study = begin(sqlite_client, compression="qsgd,fp16", width=2)
    assert sqlite_pool.work() == 5
    done = read(sqlite_client, study)
    plan, ran = done["plan"], {job["payload"].get("compression") for job in sqlite_pool.done[2:]}
    assert ran == {"fp16"}
    assert plan["chosen"]["compression"] == plan["compression"]["chosen"] == "fp16"
    assert [option["compression"] for option in plan["compression"]["options"]] == ["none", "qsgd", "fp16"]
    assert plan["request"]["compression"] == "qsgd,fp16"
    assert done["tuning"]["winner"]


def test_a_budget_of_device_seconds_ends_the_study(sqlite_client: TestClient, sqlite_pool: Pool) -> None:
    """A trial takes 6 of them: two are within 13."""
    study = begin(sqlite_client, refine={"trials": 50, "device_seconds": 13})
    sqlite_pool.work()
    tuning = read(sqlite_client, study)["tuning"]
    assert len(tuning["trials"]) == 2
    assert tuning["device_seconds"] == 12.0
    assert "device-seconds" in tuning["stopped"]


def test_jobs_are_the_owners_of_the_study(sqlite_service: Service, clock: Clock) -> None:
    """And of its study, so that they are found by it."""
    client, pool = client_with(sqlite_service, "submit", owner="carol"), Pool(sqlite_service)
    pool.connect()
    clock.forward(seconds=1)
    study = begin(client)
    with sqlite_service.database.reading() as session:
        rows = session.execute(select(JobRow.created_by, JobRow.study_id)).all()
    assert {tuple(row) for row in rows} == {("carol", study["id"])}
    pool.wrong = {"profile_model": Cancelled()}
