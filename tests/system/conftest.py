"""What do the system tests share? A service on each database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.site import Site, open_site


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A site on each database."""
    address = f"sqlite:///{tmp_path}/chimera.db"
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_url")
    yield from open_site(address, tmp_path)


@pytest.fixture
def sqlite_site(tmp_path: Path) -> Iterator[Site]:
    """A site whose database is a file."""
    yield from open_site(f"sqlite:///{tmp_path}/chimera.db", tmp_path)
