"""Does every address let in whom it should, and nobody else?"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from api.access import keys
from api.app import check_bind, create_app
from api.routes import events
from api.service import Service
from api.storage.tables import ApiKey
from tests.api.conftest import TINY, Clock, connect
from tests.api.life.pool import MEASURED
from tests.api.work.factories import add_job, claim_of, client_with, make_key, post_claim


def test_the_first_key_of_a_person_ends_the_time_without_keys(service: Service) -> None:
    """A worker's key does not; revoking the first key does not bring it back."""
    client = connect(service)
    assert client.get("/v1/studies").status_code == 200
    make_key(service, "work")
    assert client.get("/v1/studies").status_code == 200
    admin = client_with(service, "admin")
    assert client.get("/v1/studies").status_code == 401
    for entry in admin.get("/v1/keys").json()["items"]:
        admin.delete(f"/v1/keys/{entry['id']}")
    refused = client.get("/v1/studies")
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer")
    assert "chimera key create" in refused.json()["detail"]


@pytest.mark.parametrize(("require", "status"), [(True, 401), (False, 200)])
def test_the_setting_decides_when_given(sqlite_service: Service, require: bool, status: int) -> None:
    """True also before there are keys, False also afterwards; a wrong key is refused in any case."""
    if not require:
        make_key(sqlite_service, "read")
    settings = sqlite_service.settings.model_copy(update={"require_keys": require})
    client = connect(Service(settings, sqlite_service.database, sqlite_service.clock))
    assert client.get("/v1/studies").status_code == status
    assert client.get("/v1/studies", headers={"Authorization": "Bearer wrong"}).status_code == 401
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic YTpi", "secret", "Bearer ümlaut"])
def test_a_header_that_holds_no_key_is_refused(sqlite_client: TestClient, header: str) -> None:
    """Nobody who tries to show a key falls back to the rights of those without one."""
    headers = {b"authorization": header.encode("latin-1")}
    assert sqlite_client.get("/v1/studies", headers=headers).status_code == 401  # type: ignore[arg-type]


def test_with_keys_the_service_may_listen_anywhere(sqlite_service: Service) -> None:
    """And is reached under any name; what a page of another origin posts is still refused."""
    settings = sqlite_service.settings.model_copy(update={"host": "0.0.0.0", "require_keys": True})
    check_bind(settings.host, keys_are_required=settings.keys_are_required)
    running = Service(settings, sqlite_service.database, sqlite_service.clock)
    client = TestClient(create_app(service=running), base_url="http://gpu-head:8000")
    assert client.get("/v1/studies").status_code == 401
    _, secret = make_key(sqlite_service, "submit")
    client.headers["Authorization"] = f"Bearer {secret}"
    assert client.get("/v1/studies").status_code == 200
    headers = {"Origin": "http://evil.example"}
    assert client.post("/v1/studies", json=TINY, headers=headers).status_code == 403


@dataclass
class Revoking(Clock):
    """A clock that revokes a key when it is first looked at: what was read before is old by then."""

    revoke: Callable[[], None] = lambda: None

    def __call__(self) -> datetime:
        """The moment it shows."""
        revoke, self.revoke = self.revoke, lambda: None
        revoke()
        return self.at


def test_a_key_that_is_revoked_while_it_is_used_stays_revoked(service: Service) -> None:
    """The request that was let in notes that it used the key, and nothing else of what it read."""
    clock = Revoking()
    identifier, secret = make_key(service, "read")

    def revoke() -> None:
        with service.database.writing() as session:
            keys.revoke_key(session, identifier, now=clock.at)

    clock.revoke = revoke
    running = Service(service.settings, service.database, clock)
    client = connect(running, headers={"Authorization": f"Bearer {secret}"})
    assert client.get("/v1/studies").status_code == 200
    refused = client.get("/v1/studies")
    assert (refused.status_code, "was revoked" in refused.json()["detail"]) == (401, True)


def test_who_follows_a_study_hears_no_more_once_the_key_is_revoked(
    sqlite_service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream ends, though the study goes on."""
    monkeypatch.setattr(events, "CHECKED_EVERY_S", 0.0)
    submitter, worker = client_with(sqlite_service, "submit"), client_with(sqlite_service, "work")
    post_claim(worker, claim_of())
    address = submitter.post("/v1/studies", json=MEASURED).json()["links"]["events"]
    identifier, secret = make_key(sqlite_service, "read")
    clock = Revoking()
    running = Service(sqlite_service.settings, sqlite_service.database, clock)
    reader = connect(running, headers={"Authorization": f"Bearer {secret}"})
    assert reader.get("/v1/studies").status_code == 200

    def revoke() -> None:
        with sqlite_service.database.writing() as session:
            keys.revoke_key(session, identifier, now=clock.at)

    clock.revoke = revoke
    assert "event: status" in reader.get(address).text


@pytest.mark.parametrize("verb", ["cancel", "delete"])
def test_a_study_is_its_owners(service: Service, verb: str) -> None:
    """Others are refused by name; its owner under another key, and an admin, are not."""
    alice, bob = client_with(service, "submit"), client_with(service, "submit", owner="bob")
    again, admin = client_with(service, "submit"), client_with(service, "admin", owner="root")

    def stop(client: TestClient, study: str) -> Any:
        if verb == "cancel":
            return client.post(f"/v1/studies/{study}/cancel")
        return client.delete(f"/v1/studies/{study}")

    for client in (alice, again, admin):
        study = alice.post("/v1/studies", json=TINY).json()
        assert study["created_by"] == "alice"
        refused = stop(bob, study["id"])
        assert refused.status_code == 403
        assert "'alice'" in refused.json()["detail"]
        # Such a study is done already: there is nothing to cancel.
        assert stop(client, study["id"]).status_code == (409 if verb == "cancel" else 204)
    assert bob.get(f"/v1/studies/{study['id']}").status_code == (200 if verb == "cancel" else 404)


def test_a_job_is_cancelled_by_its_owner_or_an_admin(service: Service) -> None:
    """Not by others."""
    bob, admin = client_with(service, "submit", owner="bob"), client_with(service, "admin", owner="root")
    for client in (client_with(service, "submit"), admin):
        job_id = add_job(service)
        assert bob.post(f"/v1/jobs/{job_id}/cancel").status_code == 403
        assert client.post(f"/v1/jobs/{job_id}/cancel").status_code == 200


def test_idempotency_keys_are_those_of_an_api_key(service: Service) -> None:
    """Two keys never get each other's answers."""
    headers = {"Idempotency-Key": "same"}
    clients = [client_with(service, "submit"), client_with(service, "submit")]
    made = {client.post("/v1/studies", json=TINY, headers=headers).json()["id"] for client in clients}
    assert len(made) == 2


def test_the_last_use_is_noted_to_the_minute(service: Service, clock: Clock) -> None:
    """Not with every request, which would make each of them write."""
    client = client_with(service, "read")

    def used() -> Any:
        with service.database.reading() as session:
            return session.scalars(select(ApiKey.last_used_at)).one()

    assert used() is None
    client.get("/v1/studies")
    first = used()
    assert first == clock.at
    clock.forward(seconds=59)
    client.get("/v1/studies")
    assert used() == first
    clock.forward(seconds=2)
    client.get("/v1/studies")
    assert used() == clock.at


def test_no_key_is_stored_or_logged(
    service: Service, caplog: pytest.LogCaptureFixture, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Only its SHA-256 is in the database, and nothing of it in the log, also when something breaks."""
    from sqlalchemy import MetaData

    caplog.set_level(logging.DEBUG)
    identifier, secret = make_key(service, "admin")
    client = connect(service, headers={"Authorization": f"Bearer {secret}"})
    made = client.post(
        "/v1/keys", json={"name": "ci", "scopes": ["submit"]}, headers={"Idempotency-Key": "k"}
    )
    secrets = (secret, made.json()["key"])
    client.get("/v1/studies")
    client.get("/v1/studies", headers={"Authorization": f"Bearer {secret}x"})
    post_claim(client, claim_of())
    tables = MetaData()
    tables.reflect(service.database.engine)
    with service.database.reading() as session:
        rows = [str(row) for table in tables.sorted_tables for row in session.execute(select(table))]
    assert any(identifier in row for row in rows)
    client.app.state.service = None  # type: ignore[attr-defined]
    assert client.get("/v1/studies").status_code == 500
    for text in secrets:
        assert not any(text in row for row in rows)
        assert text not in caplog.text
