"""What do tests of the service share? A service on an empty database of each kind, and a client of it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url
from starlette.testclient import TestClient

from api.app import create_app
from api.computing import plans
from api.service import Service
from api.settings import Settings
from api.storage.database import open_database, upgrade
from tests.databases import postgres_database
from tests.plans import answer_once

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


@pytest.fixture(scope="session", autouse=True)
def plans_made_once() -> Iterator[None]:
    """Have the tuner plan an equal question once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plans, "answer", answer_once)
        yield


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of database."""
    return str(request.param)


@pytest.fixture
def address(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database of each kind."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/chimera.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a database with all tables and nothing in them."""
    file = tmp_path_factory.mktemp("migrated") / "chimera.db"
    upgrade(f"sqlite:///{file}")
    return file


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server_url: str) -> Iterator[str]:
    """The name of such a one of Postgres."""
    with postgres_database(postgres_server_url) as url:
        upgrade(url)
        yield str(make_url(url).database)


@pytest.fixture
def sqlite_address(migrated_sqlite: Path, tmp_path: Path) -> str:
    """The address of a migrated database in a file."""
    shutil.copy(migrated_sqlite, tmp_path / "chimera.db")
    return f"sqlite:///{tmp_path}/chimera.db"


@pytest.fixture
def migrated_address(kind: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a migrated database of each kind."""
    if kind == "sqlite":
        yield str(request.getfixturevalue("sqlite_address"))
        return
    server, template = (
        request.getfixturevalue(name) for name in ("postgres_server_url", "migrated_postgres")
    )
    with postgres_database(server, template=template) as url:
        yield url


@pytest.fixture
def clock() -> Clock:
    """The service's clock."""
    return Clock()


@pytest.fixture
def service(migrated_address: str, clock: Clock) -> Iterator[Service]:
    """A service on each database."""
    database = open_database(migrated_address, pool_size=4)
    running = Service(Settings(database_url=migrated_address, work_in="threads"), database, clock)
    yield running
    running.database.close()


@pytest.fixture
def sqlite_service(sqlite_address: str, clock: Clock) -> Iterator[Service]:
    """A service on SQLite, where the database makes no difference."""
    running = Service(
        Settings(database_url=sqlite_address, work_in="threads"), open_database(sqlite_address), clock
    )
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
