"""Is it written down who changed what, and who was not let?"""

import logging
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.access import audit
from api.service import Service
from api.upkeep import tidy
from tests.api.access.browser import Browser
from tests.api.conftest import TINY, Clock, connect
from tests.api.work.factories import add_job, claim_of, client_with, make_key, post_claim, post_finish
from tuner.messages import Cancelled


def entries(admin: TestClient, **wanted: str) -> list[dict[str, Any]]:
    """The log, the newest entry first."""
    answer = admin.get("/v1/audit", params=wanted)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def told(entry: dict[str, Any]) -> tuple[Any, ...]:
    """Who did what to what, and how it ended."""
    return entry["owner"], entry["action"], entry["target"], entry["status"]


def test_every_change_has_an_entry(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    """With who, what, which, when, from where and under which id of the log; reading leaves none."""
    caplog.set_level(logging.INFO, logger="chimera.audit")
    alice, bob, admin = (client_with(service, *scopes, owner=owner) for *scopes, owner in (
        ("submit", "work", "alice"), ("submit", "bob"), ("admin", "root"),
    ))  # fmt: skip
    study = alice.post("/v1/studies", json=TINY, headers={"X-Request-ID": "from-a-script"}).json()["id"]
    assert bob.delete(f"/v1/studies/{study}").status_code == 403
    assert bob.post("/v1/studies", json={"model": 1}).status_code == 422
    alice.get(f"/v1/studies/{study}")
    alice.post("/v1/plans", json=TINY)
    job = add_job(service)
    taken = post_claim(alice, claim_of()).json()
    assert post_finish(alice, taken, Cancelled()).status_code == 200
    other = add_job(service)
    alice.post(f"/v1/jobs/{other}/cancel")
    made = admin.post("/v1/keys", json={"name": "ci", "scopes": ["read"]}).json()
    admin.delete(f"/v1/keys/{made['id']}")
    alice.delete(f"/v1/studies/{study}")
    found = entries(admin)
    # All of one moment, in which their order is nobody's business.
    assert {told(entry) for entry in found} == {
        ("alice", "create_study", study, 201),
        ("bob", "delete_study", study, 403),
        ("alice", "finish_job", job, 200),
        ("alice", "cancel_job", other, 200),
        ("root", "create_key", made["id"], 201),
        ("root", "revoke_key", made["id"], 204),
        ("alice", "delete_study", study, 204),
    }
    assert len(found) == 7
    first = next(entry for entry in found if entry["action"] == "create_study")
    assert (first["address"], first["request_id"]) == ("testclient", "from-a-script")
    assert first["at"] == service.clock().isoformat()
    lines = [record.told for record in caplog.records if record.name == "chimera.audit"]  # type: ignore[attr-defined]
    assert sorted(line["id"] for line in lines) == sorted(entry["id"] for entry in found)
    assert first in lines
    assert made["key"] not in caplog.text + str(found)


def test_repeating_a_request_changes_nothing_and_leaves_no_entry(service: Service) -> None:
    """Neither an answer that is given again, nor a document that was there."""
    admin = client_with(service, "admin")
    for _ in range(2):
        admin.post("/v1/studies", json=TINY, headers={"Idempotency-Key": "k"})
    assert [entry["action"] for entry in entries(admin)] == ["create_study"]


def test_the_log_is_read_in_pages_and_by_what_is_looked_for(sqlite_service: Service, clock: Clock) -> None:
    """For admins; by owner, key, operation, id and time; nobody is told who showed a wrong key."""
    admin, alice = client_with(sqlite_service, "admin", owner="root"), client_with(sqlite_service, "submit")
    studies = []
    for _ in range(3):
        studies.append(alice.post("/v1/studies", json=TINY).json()["id"])
        clock.forward(hours=1)
    Browser(sqlite_service).sign_in("wrong")
    clock.forward(hours=1)
    identifier, key = make_key(sqlite_service, "read")
    Browser(sqlite_service).sign_in(key)
    assert told(entries(admin, action="log_in")[1]) == ("nobody", "log_in", None, 401)
    assert [told(entry) for entry in entries(admin, key_id=identifier)] == [
        ("alice", "log_in", identifier, 200)
    ]
    assert [entry["target"] for entry in entries(admin, owner="alice", limit="2")] == [identifier, studies[2]]
    assert [entry["target"] for entry in entries(admin, target=studies[1])] == [studies[1]]
    middle = entries(admin, target=studies[1])[0]["at"]
    assert len(entries(admin, after=middle)) == 4
    assert [entry["target"] for entry in entries(admin, before=middle)] == [studies[0]]
    page = admin.get("/v1/audit", params={"limit": 2}).json()
    rest = admin.get("/v1/audit", params={"cursor": page["next"]}).json()
    assert len(rest["items"]) == 3
    assert rest["next"] is None
    assert alice.get("/v1/audit").status_code == 403
    times = ("yesterday", "2026-01-01T00:00:00", "0.5", "1767225600")
    for wrong in ({"cursor": "x"}, {"limit": "0"}, *({"after": time} for time in times)):
        assert admin.get("/v1/audit", params=wrong).status_code == 422, wrong
    assert entries(admin, before="0001-01-01T00:00:00+23:59") == []
    assert len(entries(admin, before="9999-12-31T23:59:59-23:59")) == 5


def test_old_entries_are_forgotten(service: Service, clock: Clock) -> None:
    """After a year, by default."""
    admin = client_with(service, "admin")
    admin.post("/v1/studies", json=TINY)
    clock.forward(days=364)
    tidy(service)
    assert len(entries(admin)) == 1
    clock.forward(days=2)
    tidy(service)
    assert entries(admin) == []


def test_a_change_without_its_entry_is_not_made(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are one transaction."""
    client = connect(service)
    study = client.post("/v1/studies", json=TINY).json()["id"]

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(audit, "record", fail)
    assert client.delete(f"/v1/studies/{study}").status_code == 500
    assert client.post("/v1/studies", json=TINY).status_code == 500
    assert [entry["id"] for entry in client.get("/v1/studies").json()["items"]] == [study]
