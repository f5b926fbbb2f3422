"""What do tests of the service's processes start? A service on a database of its own, and workers."""

import json
import os
import random
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

from sqlalchemy import select

from api.access import keys
from api.access.keys import Scope
from api.jobs import queue
from api.service import now
from api.storage.database import Database, open_database, upgrade
from api.storage.tables import JobRow
from tests.api.work.factories import TRIAL
from tests.cli.command import CHIMERA
from tuner.client import ServiceClient
from tuner.job_documents import JobDocument
from tuner.messages import JobKind, JobStatus

PATIENCE_S = 120
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

    def start_api(self, *options: str, **settings: str) -> None:
        """Start the service with CHIMERA_* `settings`, and return when it listens."""
        environment = os.environ | {"CHIMERA_DATABASE_URL": self.address, "CHIMERA_LEASE_SECONDS": "2"}
        environment |= settings
        command = [*CHIMERA, "serve", "--port", str(self.port), "--json", *options]
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
        """Start a worker that only pretends, with a log of its own."""
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


def open_site(address: str, folder: Path) -> Iterator[Site]:
    """A site on a database, and whatever it takes to end all of its processes."""
    upgrade(address)
    database = open_database(address, pool_size=2)
    with database.writing() as session:
        worker_key, admin_key = (
            keys.create_key(session, name="t", owner="t", scopes=[scope], created_by="test", now=now())[1]
            for scope in (Scope.WORK, Scope.ADMIN)
        )
    made = Site(folder, address, database, _lasting_port(), worker_key, admin_key)
    yield made
    for process in (*made.workers, made.api):
        if process is not None:
            kill(process)
    database.close()


def _lasting_port() -> int:
    """A free one that the kernel gives to nobody who asks for any while the service is away."""
    for number in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", number)):
            return number
    raise OSError("none of 100 ports from 20,000 on is free")


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


def finished(job: JobDocument) -> JobDocument | None:
    """The job, once it has ended."""
    return job if job.finished_at else None
