"""Who is let in while there are no keys?"""

import pytest
from starlette.testclient import TestClient

from api.app import check_bind, create_app
from api.errors import BindError
from api.service import Service
from api.settings import Settings
from tests.api.conftest import TINY, connect


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.53", "LOCALHOST"])
def test_loopback_addresses_are_listened_on(host: str) -> None:
    """They are this machine's alone."""
    check_bind(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", "", "127.0.0.1.example.org"])
def test_any_other_address_is_refused(host: str) -> None:
    """The message says why, and what to do instead."""
    with pytest.raises(BindError, match=r"without API keys.*--host 127\.0\.0\.1"):
        check_bind(host)


def test_no_service_is_made_for_another_address(sqlite_service: Service) -> None:
    """However it is started."""
    settings = sqlite_service.settings.model_copy(update={"host": "0.0.0.0"})
    with pytest.raises(BindError):
        create_app(settings, service=sqlite_service)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]:8000", "LocalHost"])
def test_requests_for_this_host_are_answered(sqlite_client: TestClient, host: str) -> None:
    """Under any port: a tunnel may change it."""
    assert sqlite_client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "[::1", "10.0.0.1:8000", "localhost.evil"]
)
@pytest.mark.parametrize("path", ["/healthz", "/", "/v1/studies", "/nothing"])
def test_requests_for_another_host_are_refused(sqlite_client: TestClient, host: str, path: str) -> None:
    """A name that someone else points at this address (DNS rebinding) gets nothing, on any address."""
    refused = sqlite_client.get(path, headers={"Host": host})
    assert refused.status_code == 403
    assert refused.headers["content-type"] == "application/problem+json"
    assert "CHIMERA_PUBLIC_URL" in refused.json()["detail"]


def test_the_public_address_is_accepted(sqlite_service: Service) -> None:
    """As Host and as Origin, whatever the scheme that a proxy speaks to us."""
    settings = Settings(
        database_url=sqlite_service.settings.database_url, public_url="https://tuner.example.org"
    )
    client = TestClient(create_app(settings, service=sqlite_service), base_url="http://tuner.example.org")
    assert client.get("/healthz").status_code == 200
    made = client.post("/v1/studies", json=TINY, headers={"Origin": "https://tuner.example.org"})
    assert made.status_code == 201
    assert client.get("/healthz", headers={"Host": "other.example.org"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://127.0.0.1.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_origins_change_nothing(sqlite_client: TestClient, headers: dict[str, str]) -> None:
    """Whatever the method that changes things."""
    for method, path in (("POST", "/v1/studies"), ("POST", "/v1/plans"), ("DELETE", "/v1/studies/x")):
        refused = sqlite_client.request(method, path, json=TINY, headers=headers)
        assert refused.status_code == 403, (method, path)
    assert sqlite_client.get("/v1/studies", headers=headers).json()["items"] == []


def test_own_pages_and_programs_may_change_things(sqlite_client: TestClient) -> None:
    """A program sends no Origin, our own page sends ours."""
    for headers in ({}, {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}):
        assert sqlite_client.post("/v1/studies", json=TINY, headers=headers).status_code == 201


@pytest.mark.parametrize("path", ["/", "/v1/studies", "/nothing", "/v1/catalogue"])
def test_every_answer_carries_the_security_headers(sqlite_client: TestClient, path: str) -> None:
    """Also errors."""
    headers = sqlite_client.get(path).headers
    policy = headers["content-security-policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"


def test_a_defect_carries_them_too(sqlite_service: Service) -> None:
    """Its handler stands outside the middleware."""
    client = connect(sqlite_service)
    sqlite_service.database.engine.dispose()
    client.app.state.service = None  # type: ignore[attr-defined]
    refused = client.get("/v1/studies")
    assert refused.status_code == 500
    assert refused.headers["x-content-type-options"] == "nosniff"
