"""Is whatever a client sends answered, with nothing half-written, where a body is read?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from sqlalchemy import func, select
from starlette.testclient import TestClient

from api.service import Service
from api.settings import Settings
from api.storage.database import open_database
from api.storage.tables import Table
from profiles import library
from tests.api.hostile import LARGE, TEXTS, VALUES, bodies, places, put
from tests.api.work.factories import client_with

SOUND = bodies()
PLANS = "/v1/plans"
LONG = 100_000
"""Bytes of a body that one address is enough for: all read JSON in one way."""
FAMILIES = sorted(library.names("models"))


class Target:
    """A service on SQLite, and a client that may do everything."""

    def __init__(self, folder: Path) -> None:
        address = f"sqlite:///{folder}/chimera.db"
        often = {"rate_per_minute": 1_000_000, "rate_burst": 1_000_000}
        self.service = Service(
            Settings(database_url=address, work_in="threads", **often), open_database(address)
        )
        self.client: TestClient = client_with(self.service, "admin")

    def rows(self) -> dict[str, int]:
        """How many rows each table has."""
        with self.service.database.reading() as session:
            return {
                table.name: session.scalar(select(func.count()).select_from(table)) or 0
                for table in Table.metadata.sorted_tables
            }

    def send(self, path: str, body: bytes) -> Any:
        """Post a body: the answer is no 5xx, a refusal is a problem, and it leaves no row behind."""
        before = self.rows()
        answer = self.client.post(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code < 500, f"{path} {body[:500]!r}: {answer.text[:500]}"
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert len(answer.content) < 20_000
            assert self.rows() == before
        return answer


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Shared by the tests: what is sent to it is meant to leave nothing."""
    made = Target(tmp_path_factory.mktemp("hostile"))
    yield made
    made.service.database.close()


@pytest.mark.parametrize("path", SOUND)
def test_the_sound_bodies_are_sound(target: Target, path: str) -> None:
    """What is changed below is refused for the change."""
    answer = target.send(path, json.dumps(SOUND[path]).encode())
    assert answer.status_code in {200, 201, 202, 204, 404, 409, 422}
    if answer.status_code == 422:
        assert "0000" in answer.text or "worker" in answer.text, answer.text


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_json_is_refused_everywhere(target: Target, name: str) -> None:
    """400, before anything else is looked at."""
    for path in SOUND if len(TEXTS[name]) < LONG else (PLANS,):
        assert target.send(path, TEXTS[name]).status_code == 400, path


@pytest.mark.parametrize("name", LARGE)
def test_large_bodies_are_refused(target: Target, name: str) -> None:
    """422, with a short answer; one that tells of every fault took minutes."""
    for path in (PLANS, "/v1/profiles", "/v1/measurements"):
        assert target.send(path, LARGE[name]).status_code == 422, path


def mutants(body: dict[str, Any]) -> some.SearchStrategy[Any]:
    """The body with another value in one place, or two."""
    changes = some.lists(
        some.tuples(some.sampled_from(sorted(places(body), key=str)), some.sampled_from(VALUES)),
        min_size=1,
        max_size=2,
    )
    return changes.map(lambda drawn: _changed(body, drawn))


def _changed(body: Any, changes: list[tuple[Any, Any]]) -> Any:
    for place, value in sorted(changes, key=lambda change: -len(change[0])):
        body = put(body, place, value)
    return body


@pytest.mark.parametrize("path", SOUND)
@settings(max_examples=15)
@given(data=some.data())
def test_other_values_in_any_place_find_no_fault(target: Target, path: str, data: some.DataObject) -> None:
    """Numbers that are huge, negative or of another kind; paths, marks and scripts for names."""
    target.send(path, json.dumps(data.draw(mutants(SOUND[path]))).encode())


@settings(max_examples=30)
@given(data=some.data())
def test_other_values_in_a_config_find_no_fault(target: Target, data: some.DataObject) -> None:
    """Of every family: a plan, or a sentence that names the key."""
    config = library.load_model_preset(data.draw(some.sampled_from(FAMILIES))).config
    asked = {
        "accelerator": "a100-80gb",
        "devices": 4,
        "mini_batch_size": 16,
        "depth": 4,
        "schedules": "dapple",
    }
    model = {"config": data.draw(mutants(config))}
    target.send(PLANS, json.dumps(asked | {"model": model, "sequence_length": 64}).encode())


@pytest.mark.long
@pytest.mark.timeout(3_600)
@settings(max_examples=20_000)
@given(data=some.data())
def test_very_many_values_find_no_fault(target: Target, data: some.DataObject) -> None:
    """The same at length, over all addresses."""
    path = data.draw(some.sampled_from(list(SOUND)))
    target.send(path, json.dumps(data.draw(mutants(SOUND[path]))).encode())
