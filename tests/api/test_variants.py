"""Is what means the same answered the same?"""

from typing import Any

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.service import Service
from tests.api.conftest import ORIGIN, TINY, connect
from tests.api.life.pool import MEASURED
from tests.api.work.factories import claim_of, client_with, post_claim

OWN = {"x-request-id", "date"}
"""What differs from one answer to the next."""


def test_head_is_get_without_its_body(sqlite_client: TestClient) -> None:
    """Of documents, pages, files, streams and errors: probes and link checkers ask so."""
    study = sqlite_client.post("/v1/studies", json=TINY).json()["links"]
    pages = ("/", "/login", "/favicon.ico", "/healthz", "/v1/catalogue", "/nothing")
    for address in (study["self"], study["candidates"], study["events"], study["page"], *pages):
        got, head = sqlite_client.get(address), sqlite_client.head(address)
        assert (head.status_code, head.content) == (got.status_code, b""), address
        told = [
            {name: value for name, value in each.headers.items() if name not in OWN} for each in (got, head)
        ]
        assert told[0] == told[1], address
    refused = sqlite_client.head("/v1/plans")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    known = sqlite_client.head(
        study["self"], headers={"If-None-Match": sqlite_client.get(study["self"]).headers["etag"]}
    )
    assert known.status_code == 304


def test_head_of_a_stream_ends_and_is_counted_by_its_route(sqlite_service: Service) -> None:
    """A study that goes on is followed by nobody who wants no body."""
    client, worker = client_with(sqlite_service, "submit"), client_with(sqlite_service, "work")
    post_claim(worker, claim_of())
    events = client.post("/v1/studies", json=MEASURED).json()["links"]["events"]
    head = client.head(events)
    assert (head.status_code, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert 'method="HEAD",route="/v1/studies/{study_id}/events"' in client.get("/metrics").text


@pytest.mark.parametrize("base", ["", "/tuner"])
def test_a_slash_at_the_end_changes_nothing(sqlite_service: Service, base: str) -> None:
    """Without a redirect, which loses bodies, keys, https and the path of a proxy."""
    app = create_app(service=sqlite_service)
    client = TestClient(app, base_url=ORIGIN, root_path=base, follow_redirects=False)
    made = client.post(f"{base}/v1/studies/", json=TINY)
    assert made.status_code == 201
    here = made.json()["links"]["self"]
    assert here.startswith(f"{base}/v1/studies/")
    assert client.get(f"{here}/").json() == client.get(here).json()
    assert client.get(f"{base}/workers/").status_code == client.get(f"{base}/").status_code == 200
    assert client.get(f"{base}/nothing/").status_code == 404


def test_a_proxy_may_leave_its_path_in_the_address(sqlite_service: Service) -> None:
    """The server puts it in front in any case; a path that is one of our own addresses stays what it is."""
    client = TestClient(create_app(service=sqlite_service), base_url=ORIGIN, root_path="/tuner")
    made = client.post("/tuner/tuner/v1/studies", json=TINY).json()
    assert client.get(f"/tuner{made['links']['self']}").json()["id"] == made["id"]
    assert client.get(f"/tuner{made['links']['page']}").status_code == 200
    assert client.get("/tuner/tunerv1/studies").status_code == 404
    own = TestClient(create_app(service=sqlite_service), base_url=ORIGIN, root_path="/studies")
    assert own.get(f"/studies/studies/{made['id']}").status_code == 200


@pytest.mark.parametrize("asked", ["gzip;q=0", "identity, gzip; q=0.0", "deflate;Q=0, br"])
def test_a_coding_that_is_refused_is_not_used(sqlite_client: TestClient, asked: str) -> None:
    """By documents, pages and files; one with a weight is."""
    for address in ("/v1/catalogue", "/", "/favicon.ico"):
        assert (
            "content-encoding" not in sqlite_client.get(address, headers={"Accept-Encoding": asked}).headers
        )
        packed = sqlite_client.get(address, headers={"Accept-Encoding": "br;q=0, gzip;q=0.5"})
        assert packed.headers["content-encoding"] == "gzip"


def test_a_whole_address_is_understood(sqlite_service: Service) -> None:
    """Any server has to, and some clients of proxies ask so; it names no other host than the header does."""
    app = create_app(service=sqlite_service)

    async def asked_whole(scope: Any, receive: Any, send: Any) -> None:
        whole = f"http://127.0.0.1{scope['path']}"
        await app(scope | {"path": whole, "raw_path": whole.encode()}, receive, send)

    client = TestClient(asked_whole, base_url=ORIGIN)
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/nothing").status_code == 404


def test_a_compressed_body_is_refused_as_such(sqlite_service: Service) -> None:
    """Rather than as text that is no UTF-8."""
    refused = connect(sqlite_service).post(
        "/v1/plans",
        content=b"\x1f\x8b",
        headers={"Content-Encoding": "gzip", "Content-Type": "application/json"},
    )
    assert refused.status_code == 415
    assert "uncompressed" in refused.json()["detail"]
