"""Is every job done exactly once while workers and the service are killed, frozen and restarted?"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest
from sqlalchemy import select

from api import keys, queue
from api.database import Database, open_database, upgrade
from api.keys import Scope
from api.service import now
from api.tables import JobEvent, JobRow
from tests.api.work.factories import TRIAL
from tuner.client import ServiceClient
from tuner.job_documents import JobDocument
from tuner.messages import JobKind, JobStatus

pytestmark = pytest.mark.long

JOBS = 500
WORKERS = 4
PATIENCE_S = 60
SCRIPT = Path(__file__).with_name("job_worker.py")


@dataclass
class Site:
    """A service process and its workers, on a database of their own."""

    folder: Path
    address: str
    database: Database
    port: int
    worker_key: str
    admin_key: str
    api: subprocess.Popen[str] | None = None
    workers: list[subprocess.Popen[str]] = field(default_factory=list)
    started: int = 0

    @property
    def url(self) -> str:
        """Where the service is, also after a restart."""
        return f"http://127.0.0.1:{self.port}"

    def start_api(self) -> None:
        """Start the service, and return when it listens."""
        environment = os.environ | {"CHIMERA_DATABASE_URL": self.address, "CHIMERA_LEASE_SECONDS": "2"}
        command = [sys.executable, "-P", "-m", "cli.main", "serve", "--port", str(self.port), "--json"]
        with (self.folder / "api.log").open("a") as log:
            self.api = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        told = self.api.stdout.readline() if self.api.stdout else ""
        assert told, (self.folder / "api.log").read_text()[-3000:]
        assert json.loads(told)["port"] == self.port

    def kill_api(self) -> None:
        """End the service without a chance to tidy up."""
        if self.api is not None:
            kill(self.api)

    def restart_api(self) -> None:
        """Let the service end as an operator would, and start it again."""
        assert self.api
        self.api.terminate()
        assert self.api.wait(timeout=PATIENCE_S) == 0
        self.kill_api()
        self.start_api()

    def start_worker(self) -> subprocess.Popen[str]:
        """Start a worker with a log of its own."""
        self.started += 1
        log = self.folder / f"worker-{self.started}.log"
        with log.with_suffix(".err").open("w") as errors:
            worker = subprocess.Popen(
                [sys.executable, "-P", str(SCRIPT), self.url, str(log)],
                env=os.environ | {"CHIMERA_API_KEY": self.worker_key},
                stderr=errors,
                text=True,
            )
        self.workers.append(worker)
        return worker

    def add(self, **changes: Any) -> str:
        """Queue a job, past HTTP."""
        job = {"kind": JobKind.TRIAL, "payload": TRIAL, "created_by": "alice", "max_attempts": 100} | changes
        with self.database.writing() as session:
            return queue.enqueue(session, queue.NewJob(**job), now=now()).id

    def statuses(self) -> Counter[JobStatus]:
        """How many jobs stand where."""
        with self.database.reading() as session:
            return Counter(session.scalars(select(JobRow.status)))

    def client(self) -> ServiceClient:
        """A client that may do everything."""
        return ServiceClient(self.url, key=self.admin_key, patience_s=30)

    def notes(self) -> list[list[str]]:
        """What the workers wrote down."""
        logs = sorted(self.folder.glob("worker-*.log"))
        return [line.split() for log in logs for line in log.read_text().splitlines()]


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A service on each database, and whatever it takes to end all of its processes."""
    address = f"sqlite:///{tmp_path}/chimera.db"
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_url")
    upgrade(address)
    database = open_database(address, pool_size=2)
    with database.writing() as session:
        worker_key, admin_key = (
            keys.create_key(session, name="t", owner="t", scopes=[scope], created_by="test", now=now())[1]
            for scope in (Scope.WORK, Scope.ADMIN)
        )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Site(tmp_path, address, database, port, worker_key, admin_key)
    yield made
    for process in (*made.workers, made.api):
        if process is not None:
            kill(process)
    database.close()


def kill(process: subprocess.Popen[str]) -> None:
    """End a process at once, and everything that is held for it."""
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def until(condition: Callable[[], Any], *, what: str, every_s: float = 0.1) -> Any:
    """Wait for something; fails naming it after PATIENCE_S."""
    end = monotonic() + PATIENCE_S
    pause = Event()
    while not (found := condition()):
        assert monotonic() < end, f"not within {PATIENCE_S} s: {what}"
        pause.wait(every_s)
    return found


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


def finished(job: JobDocument) -> JobDocument | None:
    """The job, once it has ended."""
    return job if job.finished_at else None
