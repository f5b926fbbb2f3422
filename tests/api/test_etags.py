"""Is an answer that the client has not sent again?"""

from typing import Any

from starlette.testclient import TestClient

from api.service import Service
from api.storage.tables import StudyStatus
from tests.api.conftest import BERT, TINY, Clock, Submit
from tests.api.life.pool import MEASURED
from tests.api.work.factories import claim_of, client_with, post_claim

PARTS = ("", "/candidates?limit=3", "/rejected", "/trials", "/export/env", "/report", "/trace", "/timeline")


def get(client: TestClient, address: str, tag: str = "", **headers: str) -> Any:
    """The answer for a client that has the one of that tag."""
    return client.get(address, headers={"If-None-Match": tag} | headers)


def test_the_parts_of_a_finished_study_are_sent_once(client: TestClient, submit: Submit) -> None:
    """304 without a body for whoever has it, in one of several tags too; another part has another tag."""
    address = f"/v1/studies/{submit()['id']}"
    tags = set()
    for part in PARTS:
        first = get(client, address + part)
        tag = first.headers["etag"]
        assert first.status_code == 200
        for known in (tag, f'"other", {tag}', f"W/{tag.removeprefix('W/')}"):
            again = get(client, address + part, known)
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), known
        assert get(client, address + part, '"other"').status_code == 200
        tags.add(tag)
    assert len(tags) == len(PARTS)


def test_a_finished_study_is_not_read_again(client: TestClient, submit: Submit, service: Service) -> None:
    """A plan may be megabytes: for whoever has it, it stays in the database."""
    from sqlalchemy import event

    address = f"/v1/studies/{submit(**BERT)['id']}"
    tag = get(client, address).headers["etag"]
    asked: list[str] = []
    event.listen(service.database.engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    assert get(client, address, tag).status_code == 304
    assert asked
    assert not any("plan" in statement for statement in asked)


def test_an_answer_about_a_finished_study_is_made_once(
    client: TestClient, submit: Submit, service: Service
) -> None:
    """For whoever asks, compressed or not, until the study is gone; another query is another answer."""
    study = submit(**BERT)
    for headers in ({}, {"Accept-Encoding": "identity"}):
        first = get(client, study["links"]["self"], **headers)
        kept = service.answers.bytes
        again = get(client, study["links"]["self"], **headers)
        assert service.answers.bytes == kept > 0
        assert again.json() == first.json() == study
        names = {"etag", "vary", "content-length", "content-encoding", "content-type"}
        assert {name: again.headers.get(name) for name in names} == {
            name: first.headers.get(name) for name in names
        }
    few = get(client, f"{study['links']['self']}/candidates?limit=1").json()
    more = get(client, f"{study['links']['self']}/candidates?limit=2").json()
    assert (len(few["items"]), len(more["items"])) == (1, 2)
    assert get(client, f"{study['links']['self']}/export/none", "*").status_code == 404
    client.delete(study["links"]["self"])
    assert get(client, study["links"]["self"]).status_code == 404


def test_another_encoding_is_another_answer(sqlite_client: TestClient) -> None:
    """A strong tag names bytes; who has either is told that nothing changed."""
    plain = get(sqlite_client, "/v1/catalogue", **{"Accept-Encoding": "identity"})
    packed = get(sqlite_client, "/v1/catalogue")
    assert plain.headers["etag"] != packed.headers["etag"]
    assert plain.headers["vary"] == packed.headers["vary"] == "Accept-Encoding"
    assert get(sqlite_client, "/v1/catalogue", plain.headers["etag"]).status_code == 304


def test_what_changes_gets_another_tag(service: Service, clock: Clock) -> None:
    """A study that goes on, and lists."""
    client, worker = client_with(service, "submit"), client_with(service, "work")
    post_claim(worker, claim_of())
    made = client.post("/v1/studies", json=MEASURED).json()
    address = f"/v1/studies/{made['id']}"
    before = get(client, address).headers["etag"]
    listed = get(client, "/v1/studies").headers["etag"]
    assert get(client, address, before).status_code == 304
    clock.forward(seconds=1)
    assert client.post(f"{address}/cancel").json()["status"] == StudyStatus.CANCELLED
    assert get(client, address, before).status_code == 200
    assert get(client, "/v1/studies", listed).status_code == 200


def test_a_tag_is_no_key(sqlite_service: Service) -> None:
    """Who may not read is told that, whatever tag is known; streams, pages and errors have none."""
    client = client_with(sqlite_service, "submit")
    study = client.post("/v1/studies", json=TINY).json()
    tag = get(client, study["links"]["self"]).headers["etag"]
    del client.headers["Authorization"]
    assert get(client, study["links"]["self"], tag).status_code == 401
    assert get(client, study["links"]["self"], "*").status_code == 401
    reader = client_with(sqlite_service, "read")
    for address in (study["links"]["events"], study["links"]["page"], "/v1/studies/x", "/healthz"):
        assert "etag" not in reader.get(address).headers, address
