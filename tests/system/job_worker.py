"""A worker that does next to nothing: `python -P job_worker.py URL LOG`, key in CHIMERA_API_KEY.

A trial of one iteration takes 20 ms, any other one as many heartbeats as it has iterations. Every step is a
line in LOG, written before the next one begins.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any

from api.service import now
from api.storage.identifiers import new_identifier
from tests.api.life.pool import result_of
from tuner.client import ServiceClient
from tuner.client_errors import StaleLeaseError, UnreachableError
from tuner.messages import Cancelled, DeviceGroup, Done, Job, WorkerInventory

NEVER = Event()


def run(client: ServiceClient, job: Job) -> Done | Cancelled:
    """Pretend to work, with heartbeats."""
    beats = job.payload.get("iterations", 1)
    for beat in range(beats):
        NEVER.wait(0.02 if beats == 1 else job.heartbeat_s)
        with suppress(UnreachableError):  # as a real worker, which goes on while nobody answers
            if client.heartbeat(job, progress={"beat": beat}).cancel:
                return Cancelled()
    return Done(result=result_of(job.model_dump(mode="json")))


def main(url: str, log: Path) -> None:
    """Work until killed."""
    inventory = WorkerInventory(
        id=new_identifier(now()),
        name=log.name,
        version="0.1.0",
        devices=(DeviceGroup(accelerator="cpu", count=2, memory_bytes=10**9),),
    )

    def note(*words: Any) -> None:
        with log.open("a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    with ServiceClient(url, key=os.environ["CHIMERA_API_KEY"], patience_s=60) as client:
        while True:
            job = client.claim(inventory, wait_s=5)
            if job is None:
                continue
            note("began", job.id, job.attempt)
            try:
                reply = client.finish(job, run(client, job))
                note("finished", job.id, reply.status, reply.repeated)
            except StaleLeaseError:
                note("lost", job.id)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
