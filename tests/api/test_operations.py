"""Can operators and clients see what they need before anything else?"""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient

from api.errors import DatabaseError
from api.operations.readiness import MIN_FREE_BYTES, Readiness
from api.service import Service
from api.settings import Settings
from api.storage.database import open_database, upgrade
from profiles import library
from tests.api.conftest import TINY, Clock, connect


def test_health_needs_nothing(client: TestClient) -> None:
    """The process answers."""
    assert client.get("/healthz").json() == {"status": "ok"}


def test_readiness_names_the_revision(client: TestClient) -> None:
    """The database answers and its schema is the newest."""
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json()["status"] == "ready"


def test_a_service_whose_schema_is_gone_is_not_ready(sqlite_service: Service) -> None:
    """503 that says what is missing."""
    with sqlite_service.database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM alembic_version")
    refused = connect(sqlite_service).get("/readyz")
    assert refused.status_code == 503
    assert "chimera database upgrade" in refused.json()["detail"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk with a little more than what has to be free."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={MIN_FREE_BYTES + 8_000_000}", "tmpfs", folder]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_service_whose_disk_is_nearly_full_is_not_ready_until_there_is_room(
    small_disk: Path, clock: Clock
) -> None:
    """The numbers are told, and nobody has to start anything again."""
    url = f"sqlite:///{small_disk}/chimera.db"
    service = Service(Settings(database_url=url, work_in="threads"), open_database(url), clock)
    client = connect(service)
    assert client.get("/readyz").status_code == 200
    filler = small_disk / "filler"
    filler.write_bytes(bytes(10_000_000))
    clock.forward(seconds=2)
    refused = client.get("/readyz")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert "MB left, and at least 32 MB are needed" in refused.json()["detail"]
    filler.unlink()
    assert client.get("/readyz").status_code == 200
    service.database.close()


def test_a_service_whose_file_was_replaced_or_removed_is_not_ready(
    sqlite_service: Service, clock: Clock
) -> None:
    """What it would write there nobody would ever find."""
    client = connect(sqlite_service)
    file = Path(str(sqlite_service.database.engine.url.database))
    kept = file.with_suffix(".kept")
    os.link(file, kept)
    file.unlink()
    assert "is gone" in client.get("/readyz").json()["detail"]
    file.write_bytes(kept.read_bytes())
    assert "was replaced" in client.get("/readyz").json()["detail"]
    kept.replace(file)
    assert client.get("/readyz").status_code == 200


def test_a_database_that_cannot_be_written_is_told_until_it_can(postgres_url: str, clock: Clock) -> None:
    """As on a standby: reading alone would find nothing wrong."""
    upgrade(postgres_url)
    service = Service(
        Settings(database_url=postgres_url, work_in="threads"), open_database(postgres_url), clock
    )
    client = connect(service)
    for setting, status in (("on", 503), ("off", 200)):
        with service.database.engine.begin() as connection:
            connection.execute(text("SET transaction_read_only = off"))
            name = connection.engine.url.database
            connection.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {setting}'))
        service.database.engine.dispose()
        clock.forward(seconds=2)
        answer = client.get("/readyz")
        assert answer.status_code == status
        if status == 503:
            assert "read-only transaction. Next: look at the server" in answer.json()["detail"]
    service.database.close()


def test_a_server_that_became_a_standby_is_left(postgres_url: str, clock: Clock) -> None:
    """Writing is unavailable, no defect, and the next request finds the primary by a new connection."""
    upgrade(postgres_url)
    database = open_database(postgres_url, pool_size=1)
    service = Service(Settings(database_url=postgres_url, work_in="threads"), database, clock)
    client = connect(service)
    with database.engine.connect() as connection:
        connection.execute(text("SET default_transaction_read_only = on"))
        connection.commit()
    assert client.post("/v1/studies", json=TINY).status_code == 503
    assert client.post("/v1/studies", json=TINY).status_code == 201
    database.close()


def test_a_clock_that_is_apart_from_the_databases_is_told(postgres_url: str, sqlite_service: Service) -> None:
    """Leases are given by one process and judged by another; a file is on one host anyway."""
    upgrade(postgres_url)
    service = Service(Settings(database_url=postgres_url), open_database(postgres_url))
    for apart_s, way in ((60.0, "ahead of"), (-60.0, "behind")):
        with pytest.raises(
            DatabaseError, match=rf"clock of this host is (59|60)\.\d s {way} that of the database"
        ):
            Readiness(service, wall_clock=lambda apart_s=apart_s: time.time() + apart_s)()
    assert Readiness(service, wall_clock=lambda: time.time() + 3)()
    assert Readiness(sqlite_service, wall_clock=lambda: 0.0)()
    service.database.close()


def test_a_service_that_stops_is_not_ready(sqlite_service: Service) -> None:
    """Whoever shares out requests gives it none."""
    sqlite_service.bell.close()
    assert "stopping" in connect(sqlite_service).get("/readyz").json()["detail"]


def test_a_service_whose_database_is_gone_is_unavailable(sqlite_service: Service) -> None:
    """503 for whatever needs it, health stays."""
    sqlite_service.database.engine.dispose()
    file = Path(str(sqlite_service.database.engine.url.database))
    file.unlink()
    file.mkdir()
    client = connect(sqlite_service)
    assert client.get("/readyz").status_code == 503
    listed = client.get("/v1/studies")
    assert (listed.status_code, listed.headers["retry-after"]) == (503, "5")
    assert client.get("/healthz").status_code == 200


def test_the_catalogue_names_everything_that_can_be_asked_for(sqlite_client: TestClient) -> None:
    """Presets, accelerators, clusters, schedules and exports, each with a fact or two."""
    catalogue = sqlite_client.get("/v1/catalogue").json()
    named = {kind: [entry["name"] for entry in entries] for kind, entries in catalogue.items()}
    assert named["models"] == list(library.names("models"))
    assert named["accelerators"] == list(library.names("devices"))
    assert named["clusters"] == list(library.names("clusters"))
    assert {"chimera", "gpipe", "dapple", "gems"} <= set(named["schedules"])
    assert {"megatron", "env", "json"} <= set(named["export_formats"])
    assert all(entry["memory_bytes"] > 1e9 for entry in catalogue["accelerators"])
