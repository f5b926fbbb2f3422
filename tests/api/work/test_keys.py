"""Are keys made, listed and ended over REST, and from files?"""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.access.key_files import key_from_file, worker_key
from api.access.keys import Scope
from api.app import create_app
from api.errors import SettingsError
from api.service import Service
from tests.api.conftest import ORIGIN, Clock, connect
from tests.api.work.factories import client_with, post_claim


@pytest.fixture
def admin(service: Service) -> TestClient:
    """A client that may do everything."""
    return client_with(service, "admin", owner="root")


def bearer(client: TestClient, secret: str, path: str = "/v1/studies") -> int:
    """The status of a request with that key."""
    return client.get(path, headers={"Authorization": f"Bearer {secret}"}).status_code


def test_a_key_is_made_shown_once_listed_and_revoked(service: Service, admin: TestClient) -> None:
    """Its secret is in the first answer alone."""
    made = admin.post("/v1/keys", json={"name": "ci", "scopes": ["work", "read"], "owner": "ci-team"})
    assert made.status_code == 201
    document = made.json()
    assert (document["owner"], document["scopes"], document["created_by"]) == (
        "ci-team", ["read", "work"], "root",
    )  # fmt: skip
    secret = document.pop("key")
    assert len(secret) > 40
    assert bearer(admin, secret) == 200
    assert bearer(admin, secret, "/v1/keys") == 403
    entry = admin.get(made.headers["location"]).json()
    assert entry | {"last_used_at": None} == document
    assert {key["name"] for key in admin.get("/v1/keys").json()["items"]} == {"ci", "a key"}
    assert secret not in admin.get("/v1/keys").text
    for _ in range(2):
        assert admin.delete(f"/v1/keys/{document['id']}").status_code == 204
    assert admin.get(f"/v1/keys/{document['id']}").json()["revoked_at"] is not None
    assert bearer(admin, secret) == 401
    assert admin.delete("/v1/keys/nothing").status_code == 404


def test_a_repeated_request_makes_one_key_and_does_not_show_it_again(admin: TestClient) -> None:
    """The kept answer has no secret."""
    headers = {"Idempotency-Key": "once"}
    first, again = (
        admin.post("/v1/keys", json={"name": "ci", "scopes": ["read"]}, headers=headers) for _ in range(2)
    )
    assert first.json()["key"]
    assert again.json() == first.json() | {"key": None}
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scopes": []}, "scopes"),
        ({"scopes": ["root"]}, "scopes"),
        ({"scopes": "read"}, "scopes"),
        ({"name": ""}, "name"),
        ({"name": "two\nlines"}, "name"),
        ({"name": 3}, "name"),
        ({"owner": " x"}, "owner"),
        ({"owner": "x" * 201}, "owner"),
        ({"secret": "mine"}, "secret"),
    ],
)
def test_a_key_is_checked(sqlite_service: Service, change: dict[str, Any], told: str) -> None:
    """422 with the place, and no key is made."""
    admin = client_with(sqlite_service, "admin")
    refused = admin.post("/v1/keys", json={"name": "ci", "scopes": ["read"]} | change)
    assert refused.status_code == 422
    assert told in refused.json()["detail"]
    assert len(admin.get("/v1/keys").json()["items"]) == 1


def test_keys_are_listed_in_pages(sqlite_service: Service, clock: Clock) -> None:
    """The newest first."""
    admin = client_with(sqlite_service, "admin")
    for name in ("one", "two"):
        clock.forward(seconds=1)
        admin.post("/v1/keys", json={"name": name, "scopes": ["read"]})
    first = admin.get("/v1/keys?limit=2").json()
    second = admin.get("/v1/keys", params={"limit": 2, "cursor": first["next"]}).json()
    assert [key["name"] for key in first["items"] + second["items"]] == ["two", "one", "a key"]
    assert second["next"] is None


def test_the_first_key_comes_from_a_file(sqlite_service: Service, tmp_path: Path) -> None:
    """It is made there for the user alone, is the same after a restart, and ends the time without keys."""
    file = tmp_path / "secrets" / "first.key"
    settings = sqlite_service.settings.model_copy(update={"bootstrap_key_file": str(file)})
    running = Service(settings, sqlite_service.database, sqlite_service.clock)
    client = TestClient(create_app(service=running), base_url=ORIGIN)
    secret = file.read_text().strip()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]
    create_app(service=running)
    assert file.read_text().strip() == secret
    assert client.get("/v1/studies").status_code == 401
    assert bearer(client, secret, "/v1/keys") == 200
    (entry,) = client.get("/v1/keys", headers={"Authorization": f"Bearer {secret}"}).json()["items"]
    assert (entry["name"], entry["owner"], entry["scopes"]) == ("bootstrap", "admin", ["admin"])


def test_a_key_that_an_operator_wrote_is_used(service: Service, tmp_path: Path) -> None:
    """As a mounted secret; once revoked it stays so."""
    file = tmp_path / "mounted.key"
    file.write_text("s3cret" * 8 + "\n")

    def ensure() -> str:
        return key_from_file(
            service.database, file, name="m", owner="admin", scopes=[Scope.ADMIN], now=service.clock()
        )

    client = connect(service)
    assert ensure() == "s3cret" * 8
    assert bearer(client, ensure(), "/v1/keys") == 200
    headers = {"Authorization": f"Bearer {ensure()}"}
    (entry,) = client.get("/v1/keys", headers=headers).json()["items"]
    client.delete(f"/v1/keys/{entry['id']}", headers=headers)
    assert bearer(client, ensure(), "/v1/keys") == 401


@pytest.mark.parametrize("content", ["", "short", "two\nlines" * 8, "ü" * 40, "x" * 201])
def test_a_file_that_holds_no_key_is_refused(sqlite_service: Service, tmp_path: Path, content: str) -> None:
    """The message names the file, not what is in it."""
    file = tmp_path / "wrong.key"
    file.write_text(content)
    with pytest.raises(SettingsError, match=r"wrong\.key.*32 to 200") as refused:
        key_from_file(
            sqlite_service.database,
            file,
            name="m",
            owner="o",
            scopes=[Scope.WORK],
            now=sqlite_service.clock(),
        )
    assert not content or content not in str(refused.value)


def test_a_file_that_cannot_be_made_is_told(sqlite_service: Service) -> None:
    """By its name and the system's reason."""
    with pytest.raises(SettingsError, match=r"/proc/nowhere/a\.key cannot be used"):
        key_from_file(
            sqlite_service.database, Path("/proc/nowhere/a.key"), name="m", owner="o",
            scopes=[Scope.WORK], now=sqlite_service.clock(),
        )  # fmt: skip


def test_processes_that_start_at_once_agree_on_a_key(service: Service) -> None:
    """The worker beside `chimera serve` gets one key, which may work and no more, and keeps nobody out."""
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: worker_key(service.database, now=service.clock()), range(8)))
    assert len(made) == 1
    client = connect(service, headers={"Authorization": f"Bearer {made.pop()}"})
    assert post_claim(client).status_code == 204
    assert client.get("/v1/studies").status_code == 403
    assert connect(service).get("/v1/studies").status_code == 200
