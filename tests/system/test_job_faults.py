"""Is every job done exactly once while workers and the service are killed, frozen and restarted?"""

import random
import signal
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import select

from api.storage.tables import JobEvent
from tests.api.life.pool import MEASURED
from tests.api.work.factories import TRIAL
from tests.system.site import Site, finished, kill, until
from tuner.client import ServiceClient
from tuner.job_documents import JobDocument
from tuner.messages import JobKind, JobStatus

pytestmark = pytest.mark.long

JOBS = 500
WORKERS = 4


def test_every_job_is_done_once_whoever_is_killed(site: Site) -> None:
    """500 jobs, four workers: every 20 jobs a worker is killed, every 100 the service; once it is restarted.

    Jobs pace the faults, so that a busy machine, where starting takes long, sees as many of them.
    """
    chance = random.Random(7)
    for _ in range(JOBS):
        site.add()
    site.start_api()
    for _ in range(WORKERS):
        site.start_worker()
    for done in range(20, JOBS, 20):
        until(lambda done=done: site.statuses()[JobStatus.DONE] >= done, what=f"{done} of {JOBS} jobs")
        victim = site.workers.pop(chance.randrange(WORKERS))
        kill(victim)
        site.start_worker()
        if done == 240:
            site.restart_api()
        elif done % 100 == 0:
            site.kill_api()
            site.start_api()
    until(lambda: site.statuses()[JobStatus.DONE] == JOBS, what=f"{JOBS} jobs")
    assert site.statuses() == {JobStatus.DONE: JOBS}
    check_histories(site)
    told = Counter(words[1] for words in site.notes() if words[0] == "finished" and words[3] == "False")
    assert max(told.values()) == 1


def check_histories(site: Site) -> None:
    """Each job was queued once, done once and last, and every further claim followed a lease that ended."""
    histories: dict[str, list[str]] = {}
    with site.database.reading() as session:
        for entry in session.scalars(select(JobEvent).order_by(JobEvent.id)):
            histories.setdefault(entry.job_id, []).append(entry.event.value)
    assert len(histories) == JOBS
    for history in histories.values():
        assert history[:2] == ["queued", "claimed"]
        assert history[-1] == "done"
        assert history[2:-1] == ["lease_expired", "claimed"] * ((len(history) - 3) // 2)


def test_a_study_ends_right_whoever_is_killed(site: Site) -> None:
    """Six trials: after every second one a worker and the service are killed; each point is tried once."""
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
