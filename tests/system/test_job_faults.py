"""Is every job done exactly once while workers and the service are killed, frozen and restarted?"""

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import select

from api.storage.tables import JobEvent
from tests.api.life.pool import MEASURED
from tests.api.work.factories import TRIAL
from tests.databases import own_postgres
from tests.system.site import Site, finished, kill, open_site, until
from tuner.client import ServiceClient
from tuner.job_documents import JobDocument
from tuner.messages import JobKind, JobStatus

pytestmark = pytest.mark.long

JOBS = 500
WORKERS = 4
NEVER = Event()


@pytest.fixture(params=["sqlite", "postgres"])
def fragile(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Site, Callable[[], None]]]:
    """A site on each database, and what restarts the database: with SQLite that is the service itself."""
    if request.param == "sqlite":
        for site in open_site(f"sqlite:///{tmp_path}/chimera.db", tmp_path):
            yield site, site.restart_api
        return
    request.getfixturevalue("postgres_server_url")  # the first server of the process
    with own_postgres() as server:
        for site in open_site(server.url, tmp_path):
            yield site, server.crash


@pytest.mark.timeout(1800)
def test_every_job_is_done_once_whoever_is_killed(fragile: tuple[Site, Callable[[], None]]) -> None:
    """500 jobs, four workers: every second one of them or the service is killed; the database restarts once.

    The time that a process takes to start does not count, so that a busy machine gets on as well.
    """
    site, restart_database = fragile
    chance, killed = random.Random(7), Counter[str]()
    for _ in range(JOBS):
        site.add()
    site.start_api()
    for _ in range(WORKERS):
        site.start_worker()
    while (done := site.statuses()[JobStatus.DONE]) < JOBS:
        if done >= JOBS // 2 and not killed["database"]:
            restart_database()
            killed["database"] += 1
        NEVER.wait(1.0)
        victim = chance.randrange(WORKERS + 1)
        if victim == WORKERS:
            site.kill_api()
            site.start_api()
        else:
            assert site.workers[victim].poll() is None, "a worker ended by itself"
            kill(site.workers.pop(victim))
            site.start_worker()
        killed["service" if victim == WORKERS else "workers"] += 1
    assert killed["database"] == 1
    assert min(killed["service"], killed["workers"]) > 1, killed
    assert site.statuses() == {JobStatus.DONE: JOBS}
    check_histories(site)
    told = Counter(words[1] for words in site.notes() if words[0] == "finished" and words[3] == "False")
    assert max(told.values()) == 1


def check_histories(site: Site) -> None:
    """Each job was queued once, done once and last, and every further claim followed a lease that ended.

    It ended by itself, or was given back: a claim whose worker is gone when the answer is ready.
    """
    histories: dict[str, list[str]] = {}
    with site.database.reading() as session:
        for entry in session.scalars(select(JobEvent).order_by(JobEvent.id)):
            histories.setdefault(entry.job_id, []).append(entry.event.value)
    assert len(histories) == JOBS
    for history in histories.values():
        assert history[:2] == ["queued", "claimed"]
        assert history[-1] == "done"
        between = history[2:-1]
        assert set(between[::2]) <= {"lease_expired", "released"}
        assert between[1::2] == ["claimed"] * (len(between) // 2)
        assert len(between) % 2 == 0


def test_a_study_ends_right_whoever_is_killed(fragile: tuple[Site, Callable[[], None]]) -> None:
    """Six trials: after every second one a worker and the service are killed, then the database restarts.

    Each point is tried once.
    """
    site, restart_database = fragile
    site.start_api()
    for _ in range(2):
        site.start_worker()
    with site.client() as client:
        until(lambda: len(list(client.workers())) == 2, what="two workers")
        study = client.call("POST", "/v1/studies", body=MEASURED | {"refine": {"trials": 6}}).json()
        for ended in (2, 4):
            until(lambda ended=ended: tried(client, study) >= ended, what=f"{ended} trials")
            kill(site.workers.pop(0))
            site.kill_api()
            site.start_api()
            site.start_worker()
            restart_database()
        until(lambda: read(client, study)["status"] == "done", what="the study is done")
        done = read(client, study)
        trials = client.call("GET", study["links"]["trials"], params={"limit": 500}).json()["items"]
        jobs = Counter(job.kind for job in client.jobs(study_id=study["id"]))
    assert jobs == {JobKind.PROFILE_MODEL: 1, JobKind.PROFILE_LINKS: 1, JobKind.TRIAL: 6}
    assert [trial["number"] for trial in trials] == list(range(1, 7))
    assert len({str(trial["configuration"]) for trial in trials}) == 6
    assert done["tuning"]["winner"]["number"] == 1


def read(client: ServiceClient, study: dict[str, Any]) -> dict[str, Any]:
    """The study as it stands."""
    found: dict[str, Any] = client.call("GET", study["links"]["self"]).json()
    return found


def tried(client: ServiceClient, study: dict[str, Any]) -> int:
    """How many trials have ended."""
    return sum(trial["measured"] is not None for trial in read(client, study)["tuning"]["trials"])


def test_a_frozen_worker_loses_its_job(site: Site) -> None:
    """Another takes it over when the lease has ended; the frozen one wakes up, is refused, and goes on."""
    site.start_api()
    frozen = site.start_worker()
    job_id = site.add(payload=TRIAL | {"iterations": 20})
    with site.client() as client:
        until(lambda: client.job(job_id).progress, what="a heartbeat")
        frozen.send_signal(signal.SIGSTOP)
        site.start_worker()
        taken = until(lambda: second_attempt(client.job(job_id)), what="another worker")
        frozen.send_signal(signal.SIGCONT)
        until(lambda: ["lost", job_id] in site.notes(), what="the frozen worker is refused")
        done = until(lambda: finished(client.job(job_id)), what="the job is done")
    assert done.status == "done"
    assert done.worker == taken.worker
    assert [entry.event for entry in done.history] == [
        "queued", "claimed", "lease_expired", "claimed", "done",
    ]  # fmt: skip
    other = site.add()
    until(lambda: site.statuses()[JobStatus.DONE] == 2, what=f"job {other}")


def test_a_cancelled_job_stops_with_the_next_heartbeat(site: Site) -> None:
    """What it had told when it was cancelled is followed by one more heartbeat at most."""
    site.start_api()
    site.start_worker()
    job_id = site.add(payload=TRIAL | {"iterations": 1000})
    with site.client() as client:
        until(lambda: client.job(job_id).progress, what="a heartbeat")
        before = client.cancel_job(job_id)
        after = until(lambda: finished(client.job(job_id)), what="the job stops")
    assert after.status == "cancelled"
    assert before.progress
    assert after.progress
    assert after.progress["beat"] <= before.progress["beat"] + 1


def test_a_service_that_is_asked_to_stop_does_not_wait_for_idle_workers(site: Site) -> None:
    """Their claims, which would wait for seconds, are answered; they find the next service by themselves."""
    site.start_api()
    worker = site.start_worker()
    with site.client() as client:
        until(lambda: list(client.workers()), what="a worker that waits")
        site.restart_api()
        job_id = site.add()
        until(lambda: finished(client.job(job_id)), what="the job is done")
    assert worker.poll() is None


def second_attempt(job: JobDocument) -> JobDocument | None:
    """The job, once it is worked on again."""
    return job if job.attempts == 2 else None
