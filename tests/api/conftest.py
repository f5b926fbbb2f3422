"""What do tests of the service share? A service on an empty database of each kind, and a client of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from api.app import create_app
from api.service import Service
from api.settings import Settings
from api.storage.database import open_database, upgrade

ORIGIN = "http://127.0.0.1"
BERT: dict[str, Any] = {"model": "bert-48", "cluster": "piz-daint", "devices": 32, "mini_batch_size": 512}
TINY: dict[str, Any] = {"model": "tiny-gpt", "cluster": "local-cpu", "devices": 2, "mini_batch_size": 8}
NO_FIT: dict[str, Any] = {"model": "llama-3-70b", "cluster": "dgx-h100", "devices": 4, "mini_batch_size": 64}


@dataclass
class Clock:
    """A clock that goes when it is told to."""

    at: datetime = field(default_factory=lambda: datetime(2026, 3, 1, 12, 0, tzinfo=UTC))

    def __call__(self) -> datetime:
        """The moment it shows."""
        return self.at

    def forward(self, **by: float) -> None:
        """Go on."""
        self.at += timedelta(**by)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/chimera.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def clock() -> Clock:
    """The service's clock."""
    return Clock()


@pytest.fixture
def service(address: str, clock: Clock) -> Iterator[Service]:
    """A service on each database."""
    upgrade(address)
    running = Service(Settings(database_url=address), open_database(address, pool_size=4), clock)
    yield running
    running.database.close()


@pytest.fixture
def sqlite_service(tmp_path: Path, clock: Clock) -> Iterator[Service]:
    """A service on SQLite, where the database makes no difference."""
    url = f"sqlite:///{tmp_path}/chimera.db"
    running = Service(Settings(database_url=url), open_database(url), clock)
    yield running
    running.database.close()


def connect(service: Service, **options: Any) -> TestClient:
    """A client that sees errors as a client on the network does."""
    return TestClient(create_app(service=service), base_url=ORIGIN, raise_server_exceptions=False, **options)


@pytest.fixture
def client(service: Service) -> TestClient:
    """A client of the service on each database."""
    return connect(service)


@pytest.fixture
def sqlite_client(sqlite_service: Service) -> TestClient:
    """A client of the service on SQLite."""
    return connect(sqlite_service)


Submit = Callable[..., dict[str, Any]]


@pytest.fixture
def submit(client: TestClient) -> Submit:
    """Make a study on each database."""

    def make(**options: Any) -> dict[str, Any]:
        answer = client.post("/v1/studies", json=TINY | options)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    return make
