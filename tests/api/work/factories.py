"""What do tests of work need? Workers, claims, jobs and keys in one line each."""

import secrets
from datetime import timedelta
from typing import Any

from starlette.testclient import TestClient

from api.access import keys
from api.access.keys import Scope
from api.jobs import leases, queue
from api.service import Service, now
from api.storage.identifiers import new_identifier
from api.storage.tables import JobRow
from tests.api.conftest import connect
from tuner.messages import Claim, DeviceGroup, Finish, JobKind, Outcome, WorkerInventory

LEASE = timedelta(seconds=30)
TRIAL = {
    "model": "tiny-gpt",
    "configuration": {
        "schedule": "dapple", "width": 1, "depth": 2, "micro_batch_size": 1, "micro_batches": 4,
    },
}  # fmt: skip
MEASURED = {"status": "ok", "measured_iteration_s": {"median": 0.5, "p10": 0.4, "p90": 0.6}}


def worker(**changes: Any) -> WorkerInventory:
    """A worker with two CPUs."""
    known: dict[str, Any] = {
        "id": new_identifier(now()),
        "name": "bench",
        "version": "0.1.0",
        "devices": (DeviceGroup(accelerator="cpu", count=2, memory_bytes=8 * 10**9),),
    }
    return WorkerInventory(**(known | changes))


def claim_of(inventory: WorkerInventory | None = None, **options: Any) -> Claim:
    """A claim with a new token."""
    return Claim(token=secrets.token_hex(16), worker=inventory or worker(), **options)


def add_job(service: Service, **changes: Any) -> str:
    """Queue a trial; returns its id."""
    job = {"kind": JobKind.TRIAL, "payload": TRIAL, "created_by": "alice"} | changes
    with service.database.writing() as session:
        return queue.enqueue(session, queue.NewJob(**job), now=service.clock()).id


def take(service: Service, claim: Claim | None = None) -> JobRow | None:
    """Claim a job, past HTTP."""
    with service.database.writing() as session:
        return leases.claim(session, claim or claim_of(), now=service.clock(), lease=LEASE)


def end(service: Service, row: JobRow, outcome: Outcome, **result: Any) -> tuple[JobRow, bool]:
    """Finish a job, past HTTP."""
    ending = queue.Ending(row.lease_token or "", outcome, result or None)
    with service.database.writing() as session:
        return queue.finish(session, row.id, ending, now=service.clock())


def events(service: Service, job_id: str) -> list[str]:
    """What happened to a job, in words."""
    from api.jobs.history import read_history

    with service.database.reading() as session:
        return [entry["event"] for entry in read_history(session, job_id)]


def make_key(service: Service, *scopes: str, owner: str = "alice") -> tuple[str, str]:
    """The id and the secret of a new key."""
    with service.database.writing() as session:
        row, secret = keys.create_key(
            session, name="a key", owner=owner, scopes=map(Scope, scopes), created_by="test",
            now=service.clock(),
        )  # fmt: skip
        return row.id, secret


def client_with(service: Service, *scopes: str, owner: str = "alice") -> TestClient:
    """A client with a key of these scopes."""
    _, secret = make_key(service, *scopes, owner=owner)
    return connect(service, headers={"Authorization": f"Bearer {secret}"})


def post_claim(client: TestClient, claim: Claim | None = None) -> Any:
    """Claim a job over HTTP."""
    return client.post("/v1/jobs/claim", json=(claim or claim_of()).model_dump(mode="json"))


def post_finish(client: TestClient, job: dict[str, Any], outcome: Outcome, **more: Any) -> Any:
    """Finish a job over HTTP."""
    message = Finish(token=job["token"], outcome=outcome, **more).model_dump(mode="json")
    return client.post(f"/v1/jobs/{job['id']}/finish", json=message)
