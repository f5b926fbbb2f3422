"""Does the page of workers say who is there, what waits, since when, and what failed and why?"""

from datetime import timedelta

import pytest
from sqlalchemy import insert
from starlette.testclient import TestClient

from api.service import Service
from api.storage.identifiers import new_identifier
from api.storage.tables import JobRow, WorkerRow
from tests.api.conftest import Clock, connect
from tests.api.page import Page
from tests.api.work.factories import add_job, claim_of, client_with, end, post_claim, take, worker
from tuner.messages import Failed, JobKind, JobStatus

ATTACK = "<script>document.title=1</script>"


def shown(client: TestClient, path: str = "/workers") -> str:
    """The text of the page, with plain spaces."""
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    assert ATTACK not in answer.text
    return Page(answer.text).text.replace("\N{NO-BREAK SPACE}", " ")


def test_an_empty_service_says_how_workers_come(sqlite_client: TestClient) -> None:
    """The commands, and that nothing waits."""
    text = shown(sqlite_client)
    assert "0 connected. Nothing waits." in text
    assert "export CHIMERA_URL=http://127.0.0.1" in text
    assert "No job failed." in text


def test_workers_and_their_jobs_are_told(service: Service, clock: Clock) -> None:
    """Who is connected and what it does, who fell silent, what waits for what and since when, what failed."""
    workers = client_with(service, "work", owner="gpu-host")
    people = client_with(service, "submit", owner="alice")
    add_job(service, max_attempts=1)
    failing = take(service, claim_of(worker(name=ATTACK)))
    assert failing
    end(service, failing, Failed(message=f"out of memory {ATTACK}"))
    assert post_claim(workers, claim_of(worker(name="old"))).status_code == 204
    clock.forward(minutes=5)
    running = add_job(service)
    assert post_claim(workers, claim_of(worker(name="new"))).status_code == 200
    waiting = add_job(service, kind=JobKind.PROFILE_MODEL, accelerator="h100-80gb", devices=8)
    foreign = add_job(service, created_by="bob")
    clock.forward(seconds=40)
    text = shown(people)
    assert "1 connected, 1 silent. 2 jobs wait, the oldest for 40 s." in text
    assert f"out of memory {ATTACK}" in text
    assert "8 x h100-80gb" in text
    assert running[-8:] in text
    markup = people.get("/workers").text
    cancels = {job for job in (running, waiting, foreign) if f"/v1/jobs/{job}/cancel" in markup}
    assert cancels == {running, waiting}
    assert "old" in shown(people, "/workers?show=silent")
    assert f"/v1/jobs/{foreign}/cancel" in client_with(service, "admin").get("/parts/workers").text


def test_who_may_only_read_cancels_nothing(sqlite_service: Service) -> None:
    """Also not their own."""
    add_job(sqlite_service, created_by="alice")
    assert "data-cancel" not in client_with(sqlite_service, "read", owner="alice").get("/workers").text
    assert "data-cancel" in client_with(sqlite_service, "submit", owner="alice").get("/workers").text


@pytest.mark.parametrize("show", ["connected", "silent"])
def test_five_hundred_workers_and_thousands_of_jobs_have_pages(
    sqlite_service: Service, clock: Clock, show: str
) -> None:
    """Fifty workers and fifty jobs at once, and how many there are."""
    now = clock()
    seen = now if show == "connected" else now - timedelta(days=1)
    inventories = [worker(name=f"node-{number}") for number in range(500)]
    rows = [
        {"id": each.id, "owner": "o", "name": each.name, "inventory": each.model_dump(mode="json")}
        | {"first_seen_at": seen, "last_seen_at": seen}
        for each in inventories
    ]
    job = {
        "kind": JobKind.TRIAL,
        "status": JobStatus.QUEUED,
        "priority": 0,
        "created_by": "o",
        "pool": "default",
    }
    job |= {"devices": 1, "memory_bytes": 0, "payload": {}, "attempts": 0, "max_attempts": 3}
    jobs = [job | {"id": new_identifier(now), "created_at": now, "updated_at": now} for _ in range(3_000)]
    with sqlite_service.database.writing() as session:
        session.execute(insert(WorkerRow), rows)
        session.execute(insert(JobRow), jobs)
    client = connect(sqlite_service)
    answer = client.get(f"/workers?show={show}")
    assert len(answer.text) < 200_000
    assert answer.text.count('class="light') == 50
    text = Page(answer.text).text
    assert "3,000 jobs wait" in text
    assert "The next 50 of 3,000." in text
    older = next(link for link in Page(answer.text).links if "cursor=" in link)
    assert client.get(older.partition("#")[0]).text.count('class="light') == 50
    assert client.get("/workers?show=none").status_code == 422
