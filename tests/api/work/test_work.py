"""Can a worker do its job over HTTP, and do people see what became of it?"""

import asyncio
import gzip
import threading
from typing import Any

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from api import upkeep
from api.jobs import queue
from api.service import Service, now
from api.storage.identifiers import new_identifier
from api.storage.tables import JobAttachment, StoredDocument
from profiles.library import load_model_preset
from tests.api.conftest import Clock, connect
from tests.api.test_documents import small_profile
from tests.api.work.factories import (
    MEASURED,
    add_job,
    claim_of,
    client_with,
    events,
    make_key,
    post_claim,
    post_finish,
    take,
    worker,
)
from tuner.attachments import Attachment
from tuner.job_documents import JobDocument, JobEntry, WorkerEntry
from tuner.messages import Cancelled, Done, Failed, Heartbeat, HeartbeatReply, Job, JobKind

ASKED = {"model": "tiny-gpt", "sequence_length": 64, "micro_batch_sizes": [1, 2]}


@pytest.fixture
def people(service: Service) -> TestClient:
    """A client that asks for things."""
    return client_with(service, "submit")


@pytest.fixture
def gpu_host(service: Service) -> TestClient:
    """A client with a worker's key."""
    return client_with(service, "work", owner="gpu-host")


def beat(client: TestClient, job: dict[str, Any], **progress: Any) -> Any:
    """Send a heartbeat."""
    message = Heartbeat(token=job["token"], progress=progress or None).model_dump(mode="json")
    return client.post(f"/v1/jobs/{job['id']}/heartbeat", json=message)


def test_a_profile_is_asked_for_measured_and_found(
    service: Service, people: TestClient, gpu_host: TestClient
) -> None:
    """From POST /v1/profile-jobs to a stored document that plans can name, owned by who asked."""
    asked = people.post("/v1/profile-jobs", json=ASKED)
    assert asked.status_code == 202, asked.text
    made = JobDocument.model_validate(asked.json())
    assert asked.headers["location"] == f"/v1/jobs/{made.id}"
    assert (made.status, made.created_by) == ("queued", "alice")
    assert "none is connected" in (made.waiting_for or "")
    given = post_claim(gpu_host)
    job = Job.model_validate(given.json())
    assert (job.id, job.kind, job.attempt, job.lease_s, job.heartbeat_s) == (
        made.id, JobKind.PROFILE_MODEL, 1, 30, 5,
    )  # fmt: skip
    assert job.payload["micro_batch_sizes"] == [1, 2]
    assert HeartbeatReply.model_validate(beat(gpu_host, given.json(), layer=3).json()).cancel is False
    profile = small_profile()
    result = {"profile": profile.model_dump(mode="json", exclude_none=True)}
    finished = post_finish(gpu_host, given.json(), Done(result=result))
    assert finished.json() == {"status": "done", "repeated": False}
    document = people.get(f"/v1/jobs/{made.id}").json()
    assert JobDocument.model_validate(document).progress == {"layer": 3}
    assert document["result"] == {"profile": profile.fingerprint()}
    assert [entry["event"] for entry in document["history"]] == ["queued", "claimed", "done"]
    stored = people.get(f"/v1/profiles/{profile.fingerprint()}").json()
    assert stored["created_by"] == "alice"
    assert "token" not in people.get(f"/v1/jobs/{made.id}").text


def test_two_jobs_that_measure_the_same_keep_one_profile(service: Service, gpu_host: TestClient) -> None:
    """Documents are found by their content."""
    result = {"profile": small_profile().model_dump(mode="json", exclude_none=True)}
    for _ in range(2):
        add_job(service, kind=JobKind.PROFILE_MODEL, payload={"model": "tiny-gpt"})
        assert post_finish(gpu_host, post_claim(gpu_host).json(), Done(result=result)).status_code == 200
    with service.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(StoredDocument)) == 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model": "tiny-gtp"}, "tiny-gpt"),
        ({"model": "/etc/passwd"}, "passwd"),
        ({"model": {"config": {"model_type": "x"}}, "sequence_length": None}, "sequence_length"),
        ({"model": {"profile": "f" * 64}}, "measured already"),
        ({"accelerator": "h100"}, "h100-80gb"),
        ({"pool": "a pool"}, "pool"),
        ({"pool": ""}, "pool"),
        ({"priority": 101}, "priority"),
        ({"priority": True}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"micro_batch_sizes": []}, "micro_batch_sizes"),
        ({"micro_batch_sizes": ["1"]}, "micro_batch_sizes"),
        ({"unheard_of": 1}, "unheard_of"),
    ],
)
def test_a_profile_job_is_checked(
    sqlite_client: TestClient, sqlite_service: Service, change: dict[str, Any], told: str
) -> None:
    """422 with the place, and nothing is queued."""
    refused = sqlite_client.post("/v1/profile-jobs", json=ASKED | change)
    assert refused.status_code == 422, refused.text
    assert told in refused.json()["detail"]
    assert sqlite_client.get("/v1/jobs").json()["items"] == []


def test_a_profile_job_is_made_once(sqlite_client: TestClient) -> None:
    """With an Idempotency-Key."""
    headers = {"Idempotency-Key": "once"}
    answers = [sqlite_client.post("/v1/profile-jobs", json=ASKED, headers=headers) for _ in range(2)]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(sqlite_client.get("/v1/jobs").json()["items"]) == 1


def test_what_was_measured_is_not_measured_again(
    service: Service, people: TestClient, gpu_host: TestClient
) -> None:
    """Whoever asks for the same, by preset or by its config.json, gets the job that measured it, and 200."""
    first = people.post("/v1/profile-jobs", json=ASKED)
    meanwhile = people.post("/v1/profile-jobs", json=ASKED)
    assert (first.status_code, meanwhile.status_code) == (202, 200)
    assert meanwhile.json()["id"] == first.json()["id"]
    result = {"profile": small_profile().model_dump(mode="json", exclude_none=True)}
    assert post_finish(gpu_host, post_claim(gpu_host).json(), Done(result=result)).status_code == 200
    config = load_model_preset("tiny-gpt").config
    same = ASKED | {"model": {"config": config}, "precision": "float32", "micro_batch_sizes": [2, 1, 2]}
    other = client_with(service, "submit", owner="bob")
    found = other.post("/v1/profile-jobs", json=same)
    assert found.status_code == 200
    assert found.json()["id"] == first.json()["id"]
    assert found.json()["result"] == {"profile": small_profile().fingerprint()}


@pytest.mark.parametrize(
    "change",
    [
        {"precision": "bfloat16"},
        {"sequence_length": 32},
        {"micro_batch_sizes": [1, 2, 4]},
        {"optimizer": "sgd"},
        {"pool": "other"},
        {"accelerator": "cpu"},
        {"measure_again": True},
    ],
)
def test_anything_else_is_measured(sqlite_client: TestClient, change: dict[str, Any]) -> None:
    """Another shape, place or wish is another job."""
    first = sqlite_client.post("/v1/profile-jobs", json=ASKED)
    second = sqlite_client.post("/v1/profile-jobs", json=ASKED | change)
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["id"] != second.json()["id"]


def test_a_job_that_failed_or_was_cancelled_answers_nobody(
    service: Service, people: TestClient, gpu_host: TestClient
) -> None:
    """Asking again makes a new job; what another owner only waits for is measured for oneself."""
    first = people.post("/v1/profile-jobs", json=ASKED).json()
    assert post_finish(gpu_host, post_claim(gpu_host).json(), Failed(message="no")).status_code == 200
    second = people.post("/v1/profile-jobs", json=ASKED)
    theirs = client_with(service, "submit", owner="bob").post("/v1/profile-jobs", json=ASKED)
    assert (second.status_code, theirs.status_code) == (202, 202)
    people.post(f"/v1/jobs/{second.json()['id']}/cancel")
    third = people.post("/v1/profile-jobs", json=ASKED)
    assert third.status_code == 202
    assert len({first["id"], theirs.json()["id"], second.json()["id"], third.json()["id"]}) == 4


def test_a_repeated_claim_and_finish_are_safe(service: Service, gpu_host: TestClient) -> None:
    """Over HTTP: the same job, the same answer; another token for a job of nobody is refused."""
    add_job(service)
    claim = claim_of()
    first, again = post_claim(gpu_host, claim), post_claim(gpu_host, claim)
    assert first.json() == again.json()
    outcome = Done(result=MEASURED)
    assert post_finish(gpu_host, first.json(), outcome).json()["repeated"] is False
    assert post_finish(gpu_host, first.json(), outcome).json() == {"status": "done", "repeated": True}
    stale = post_finish(gpu_host, first.json() | {"token": "f" * 32}, outcome)
    assert (stale.status_code, stale.json()["type"].rpartition(":")[2]) == (409, "stale-lease")
    assert "claim another" in stale.json()["detail"]
    add_job(service)
    assert post_claim(gpu_host, claim).status_code == 409


def test_an_empty_queue_is_no_content(gpu_host: TestClient) -> None:
    """204 at once without wait_s, and the worker is listed."""
    inventory = worker(name="idle", software={"torch": "2.7.1"})
    answer = post_claim(gpu_host, claim_of(inventory))
    assert (answer.status_code, answer.content) == (204, b"")


def test_a_claim_that_waits_hears_of_a_job_at_once(sqlite_service: Service) -> None:
    """A job queued meanwhile wakes it; its waiting time would be 30 s."""
    gpu_host, people = client_with(sqlite_service, "work"), client_with(sqlite_service, "submit")
    # Routes are built by the first request, which is no matter of two threads here.
    assert (people.get("/v1/jobs").status_code, post_claim(gpu_host).status_code) == (200, 204)
    answers: list[Any] = []
    waiting = threading.Thread(target=lambda: answers.append(post_claim(gpu_host, claim_of(wait_s=30))))
    waiting.start()
    made = people.post("/v1/profile-jobs", json=ASKED).json()
    waiting.join(timeout=20)
    assert not waiting.is_alive()
    assert answers[0].json()["id"] == made["id"]


def test_a_service_that_stops_lets_waiting_claims_go(sqlite_service: Service) -> None:
    """They are answered with 204 instead of holding the stop up."""
    sqlite_service.bell.close()
    assert post_claim(client_with(sqlite_service, "work"), claim_of(wait_s=30)).status_code == 204


def test_a_worker_that_goes_away_while_it_waits_is_charged_nothing(service: Service) -> None:
    """A job that came just then is given back: the attempt does not count, and the next worker gets it."""
    job_id = add_job(service)
    _, secret = make_key(service, "work")
    body = claim_of().model_dump_json().encode()
    assert asyncio.run(claim_and_leave(connect(service).app, secret, body)) == 204
    assert events(service, job_id) == ["queued", "claimed", "released"]
    row = take(service)
    assert row
    assert (row.id, row.attempts) == (job_id, 1)


async def claim_and_leave(app: Any, secret: str, body: bytes) -> int:
    """Send a claim and hang up before its answer; the status that would have been read."""
    sent: list[dict[str, Any]] = []
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = {"host": "127.0.0.1", "content-type": "application/json", "authorization": f"Bearer {secret}"}
    scope = {
        "type": "http", "method": "POST", "path": "/v1/jobs/claim", "raw_path": b"/v1/jobs/claim",
        "query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1",
        "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    await app(scope, receive, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"token": "short"}, "token"),
        ({"wait_s": 31}, "wait_s"),
        ({"wait_s": -1}, "wait_s"),
        ({"worker": {}}, "worker.id"),
        ({"worker": None}, "worker"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_claim_is_checked(sqlite_service: Service, change: dict[str, Any], told: str) -> None:
    """422 with the place."""
    message = claim_of().model_dump(mode="json") | change
    refused = client_with(sqlite_service, "work").post("/v1/jobs/claim", json=message)
    assert refused.status_code == 422
    assert told in refused.json()["detail"]


@pytest.mark.parametrize("path", ["claim", "x/heartbeat", "x/finish"])
@pytest.mark.parametrize("protocol", [0, 2])
def test_a_worker_of_another_version_is_told_what_to_do(
    sqlite_service: Service, path: str, protocol: int
) -> None:
    """426 before anything else of the message is looked at."""
    refused = client_with(sqlite_service, "work").post(f"/v1/jobs/{path}", json={"protocol": protocol})
    assert refused.status_code == 426
    assert refused.json()["type"].endswith(":worker-version")
    assert refused.headers["upgrade"] == "chimera-worker/1"
    assert "upgrade" in refused.json()["detail"]


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"status": "ok"},
        MEASURED | {"extra": 1},
        MEASURED | {"peak_memory_bytes": [-1]},
        {"status": "fine"},
    ],
)
def test_a_result_that_is_none_of_its_kind_is_refused(
    sqlite_service: Service, result: dict[str, Any]
) -> None:
    """422, and the worker still holds the job: it can report a failure instead."""
    client = client_with(sqlite_service, "work")
    job_id = add_job(sqlite_service)
    job = post_claim(client).json()
    refused = post_finish(client, job, Done(result=result))
    assert refused.status_code == 422
    assert "the result of a trial job" in refused.json()["detail"]
    assert post_finish(client, job, Failed(message="no result")).json()["status"] == "failed"
    with sqlite_service.database.reading() as session:
        assert queue.find_job(session, job_id).result is None


def test_cancelling_reaches_the_worker_with_its_next_heartbeat(
    service: Service, people: TestClient, gpu_host: TestClient
) -> None:
    """The job is cancelled when the worker says so."""
    job_id = add_job(service)
    job = post_claim(gpu_host).json()
    told = people.post(f"/v1/jobs/{job_id}/cancel").json()
    assert (told["status"], told["cancel_requested_at"] is None) == ("running", False)
    assert beat(gpu_host, job).json()["cancel"] is True
    assert post_finish(gpu_host, job, Cancelled()).json()["status"] == "cancelled"
    assert beat(gpu_host, job).status_code == 409
    assert people.post(f"/v1/jobs/{job_id}/cancel").status_code == 200


def test_logs_and_traces_are_kept_for_a_while(
    service: Service, people: TestClient, gpu_host: TestClient, clock: Clock
) -> None:
    """Deflated, read back as they were, deleted after the retention; the result stays."""
    job_id = add_job(service)
    log = Attachment.pack("rank-0.log", "loss 3.2\n" * 1000)
    trace = Attachment.pack("trace.json", '{"traceEvents": []}')
    assert log
    assert trace
    job = post_claim(gpu_host).json()
    post_finish(gpu_host, job, Done(result=MEASURED), attachments=(log, trace))
    first, second = people.get(f"/v1/jobs/{job_id}").json()["attachments"]
    assert (first["name"], first["size_bytes"], first["cut"]) == ("rank-0.log", 9000, False)
    for encoding in ("deflate", "identity"):
        assert people.get(first["link"], headers={"Accept-Encoding": encoding}).text == "loss 3.2\n" * 1000
    assert people.get(second["link"]).json() == {"traceEvents": []}
    with service.database.reading() as session:
        assert (session.scalar(select(func.sum(func.length(JobAttachment.content)))) or 0) < 200
    clock.forward(days=89)
    upkeep.tidy(service)
    assert people.get(first["link"]).status_code == 200
    clock.forward(days=2)
    upkeep.tidy(service)
    assert people.get(first["link"]).status_code == 404
    kept = people.get(f"/v1/jobs/{job_id}").json()
    assert kept["attachments"] == []
    assert kept["result"]["measured_iteration_s"]["median"] == 0.5


def test_an_attachment_that_is_none_is_refused(sqlite_service: Service) -> None:
    """What is no zlib stream, or only a part of one, or would fill the memory."""
    client = client_with(sqlite_service, "work")
    add_job(sqlite_service)
    job = post_claim(client).json()
    whole = Attachment.pack("a.log", "text")
    bomb = Attachment.pack("a.log", "0" * 60_000_000)
    assert whole
    assert bomb
    for content in ("text", whole.content[:8], "eJw=", bomb.content):
        broken = whole.model_copy(update={"content": content})
        refused = post_finish(client, job, Done(result=MEASURED), attachments=(broken,))
        assert (refused.status_code, "a.log" in refused.json()["detail"]) == (422, True)
    assert post_finish(client, job, Done(result=MEASURED), attachments=(whole,)).status_code == 200


def test_jobs_are_listed_newest_first_with_filters(
    service: Service, people: TestClient, clock: Clock
) -> None:
    """In pages; without payloads and results."""
    made = []
    for pool in ("a", "b", "a"):
        made.append(add_job(service, pool=pool))
        clock.forward(seconds=1)
    first = people.get("/v1/jobs?limit=2").json()
    second = people.get("/v1/jobs", params={"limit": 2, "cursor": first["next"]}).json()
    assert [job["id"] for job in first["items"] + second["items"]] == made[::-1]
    assert second["next"] is None
    assert "payload" not in JobEntry.model_validate(first["items"][0]).model_dump()
    row = take(service, claim_of(worker(pools=("b",))))
    assert row
    for query, found in (
        ({"pool": "b"}, [made[1]]),
        ({"status": "queued"}, [made[2], made[0]]),
        ({"status": "running", "worker": row.worker_id}, [made[1]]),
        ({"kind": "profile_links"}, []),
        ({"study_id": "none"}, []),
    ):
        assert [job["id"] for job in people.get("/v1/jobs", params=query).json()["items"]] == found
    assert people.get("/v1/jobs?status=lost").status_code == 422
    assert people.get("/v1/jobs?cursor=x").status_code == 422
    assert people.get("/v1/jobs/nothing").status_code == 404


def test_workers_are_listed_with_what_they_hold(
    service: Service, people: TestClient, gpu_host: TestClient, clock: Clock
) -> None:
    """Connected until they are silent for 90 s; a job then waits for one that is connected."""
    inventory = worker(name="bench-1", software={"torch": "2.7.1"})
    job_id = add_job(service)
    job = post_claim(gpu_host, claim_of(inventory)).json()
    (entry,) = people.get("/v1/workers").json()["items"]
    listed = WorkerEntry.model_validate(entry)
    assert (listed.name, listed.owner, listed.status, listed.jobs) == (
        "bench-1", "gpu-host", "connected", [job_id],
    )  # fmt: skip
    assert listed.software == {"torch": "2.7.1"}
    clock.forward(seconds=80)
    beat(gpu_host, job)
    clock.forward(seconds=80)
    assert people.get("/v1/workers").json()["items"][0]["status"] == "connected"
    clock.forward(seconds=20)
    assert people.get("/v1/workers").json()["items"][0]["status"] == "silent"
    waiting = people.get(f"/v1/jobs/{add_job(service)}").json()["waiting_for"]
    assert "none is connected" in waiting
    post_claim(gpu_host, claim_of(inventory, wait_s=0))
    assert people.get(f"/v1/jobs/{add_job(service)}").json()["waiting_for"] == "a free worker"


def test_a_worker_is_its_owners(service: Service, gpu_host: TestClient) -> None:
    """Another owner's key cannot take over its id."""
    inventory = worker(id=new_identifier(now()))
    assert post_claim(gpu_host, claim_of(inventory)).status_code == 204
    other = client_with(service, "work", owner="intruder")
    refused = post_claim(other, claim_of(inventory))
    assert refused.status_code == 403
    assert "gpu-host" in refused.json()["detail"]


def test_jobs_of_a_study_stop_with_it(service: Service, people: TestClient, gpu_host: TestClient) -> None:
    """Deleting a study cancels what waits, and tells the worker of what runs; the jobs stay visible."""
    from tests.api.conftest import TINY

    study = people.post("/v1/studies", json=TINY).json()["id"]
    running, waiting = add_job(service, study_id=study, priority=1), add_job(service, study_id=study)
    job = post_claim(gpu_host).json()
    assert (job["id"], job["study_id"]) == (running, study)
    assert people.delete(f"/v1/studies/{study}").status_code == 204
    assert beat(gpu_host, job).json()["cancel"] is True
    stopped = people.get(f"/v1/jobs/{waiting}").json()
    assert (stopped["status"], stopped["study_id"]) == ("cancelled", None)


def test_a_large_log_is_answered_compressed(sqlite_service: Service) -> None:
    """As it is stored; a client that takes gzip alone gets gzip."""
    client = client_with(sqlite_service, "admin")
    add_job(sqlite_service)
    log = Attachment.pack("a.log", "line\n" * 5000)
    assert log
    job = post_claim(client).json()
    post_finish(client, job, Done(result=MEASURED), attachments=(log,))
    link = client.get(f"/v1/jobs/{job['id']}").json()["attachments"][0]["link"]
    with client.stream("GET", link, headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(answer.iter_raw())) == b"line\n" * 5000
