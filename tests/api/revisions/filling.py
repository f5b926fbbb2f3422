"""Write the backup of the newest revision: `.venv/bin/python -P -m tests.api.revisions.filling`.

A release that adds a revision does this once, with its own code. Files of earlier revisions were written by
the releases of their time, through their own API, and are never written again.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from api.access.sessions import begin_session
from api.service import Service, now
from api.settings import Settings
from api.storage.backup import back_up
from api.storage.database import current_revision, open_database
from api.storage.tables import ApiKey
from tests.api.conftest import NO_FIT, TINY, connect
from tests.api.life.pool import MEASURED, Pool
from tests.api.test_calibrations import measured
from tests.api.test_checks import CHECK
from tests.api.test_documents import documents
from tests.api.work.factories import add_job, make_key, post_claim, post_finish
from tuner.attachments import Attachment
from tuner.messages import Done, Failed

FOLDER = Path(__file__).parent
LOG = "loss 3.2\n" * 100


def fill(service: Service) -> TestClient:
    """Keep one of everything; returns a client with the key of an admin."""
    key_id, secret = make_key(service, "admin", owner="alice")
    client = connect(service, headers={"Authorization": f"Bearer {secret}"})
    with service.database.writing() as session:
        begin_session(session, session.get_one(ApiKey, key_id), now=service.clock(), hours=24)
    _keep_documents(client)
    _ask(client)
    _work(service)
    return client


def _keep_documents(client: TestClient) -> None:
    for kind, document in documents().items():
        _sent(client.post(f"/v1/{kind}", json=document))
    _sent(client.post("/v1/checks", json=CHECK))
    kept = _sent(client.post("/v1/measurements", json=measured()))
    _sent(client.post("/v1/calibrations/fit", json={"measurements": [kept["id"]]}))


def _ask(client: TestClient) -> None:
    """Studies that are answered at once."""
    for name, body in (("planned", TINY), ("nothing fits", NO_FIT)):
        _sent(client.post("/v1/studies", json=body | {"name": name}, headers={"Idempotency-Key": name}))


def _work(service: Service) -> None:
    """Jobs that were done, failed and wait, and studies that measured, measure and were cancelled."""
    pool = Pool(service)
    pool.connect()
    client = connect(service, headers={"Authorization": f"Bearer {make_key(service, 'admin')[1]}"})
    add_job(service)
    log = Attachment.pack("rank-0.log", LOG)
    assert log is not None
    _sent(post_finish(pool.client, post_claim(pool.client).json(), Done(result=RESULT), attachments=(log,)))
    add_job(service, max_attempts=1)
    _sent(post_finish(pool.client, post_claim(pool.client).json(), Failed(message="no memory")))
    for name, jobs in (("measured", 100), ("measuring", 1), ("cancelled", 0)):
        study = _sent(client.post("/v1/studies", json=MEASURED | {"name": name}))
        pool.work(jobs)
    _sent(client.post(f"/v1/studies/{study['id']}/cancel"))
    add_job(service, pool="elsewhere")


RESULT = {
    "status": "ok",
    "measured_iteration_s": {"median": 0.5, "p10": 0.4, "p90": 0.6},
    "peak_memory_bytes": [1_000, 2_000],
}


def _sent(answer: Any) -> Any:
    assert answer.status_code < 300, answer.text
    return answer.json()


def main() -> None:
    """Write the file."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/chimera.db"
        service = Service(Settings(database_url=url, work_in="threads"), open_database(url))
        fill(service)
        revision = current_revision(service.database.engine)
        service.database.close()
        written = back_up(url, FOLDER / f"{revision}.backup", now=now(), force=True)
    sys.stdout.write(f"{revision}.backup: {written.size_bytes:,} bytes, {written.rows}\n")


if __name__ == "__main__":
    main()
