"""Can operators and clients see what they need before anything else?"""

from pathlib import Path

from starlette.testclient import TestClient

from api.service import Service
from profiles import library
from tests.api.conftest import connect


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
