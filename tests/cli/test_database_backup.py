"""Do `chimera database backup` and `restore` say what they did, and leave what was there when they cannot?"""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from api.storage.backup import back_up
from api.storage.database import open_database, upgrade
from api.storage.engine import open_engine
from api.storage.tables import DocumentKind, StoredDocument
from tests.cli.command import Shell, start

AT = datetime(2026, 3, 1, tzinfo=UTC)
LARGE = 150


def keep(address: str, *names: str, size: int = 0) -> None:
    """Documents that cannot be compressed much."""
    upgrade(address)
    database = open_database(address)
    with database.writing() as session:
        session.add_all(
            StoredDocument(
                kind=DocumentKind.CLUSTER, id=name, name=name, created_by="someone",
                document={"noise": os.urandom(size // 2).hex()}, created_at=AT,
            )
            for name in names
        )  # fmt: skip
    database.close()


def kept(address: str) -> list[str]:
    """The names of the documents."""
    engine = open_engine(address)
    with engine.connect() as connection:
        found = list(connection.scalars(text("SELECT name FROM documents ORDER BY name")))
    engine.dispose()
    return found


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup that takes a moment to restore."""
    folder = tmp_path_factory.mktemp("large")
    address = f"sqlite:///{folder}/large.db"
    keep(address, *(f"large-{number:03}" for number in range(LARGE)), size=100_000)
    back_up(address, folder / "large.backup", now=AT)
    return folder / "large.backup"


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/chimera.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_the_examples_write_and_restore_and_say_what_they_did(
    chimera: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For people a sentence with the next step, for programs one document."""
    monkeypatch.chdir(tmp_path)
    keep("sqlite:///chimera.db", "one")
    command = ("database", "backup", "chimera.backup", "--database-url", "sqlite:///chimera.db")
    made = chimera(*command)
    assert (made.code, made.err) == (0, "")
    assert "1 rows" in made.out
    assert "--dry-run checks it" in made.out
    refused = chimera(*command)
    assert (refused.code, refused.out) == (2, "")
    assert "chimera.backup is there already" in refused.err
    told = json.loads(chimera(*command, "--force", "--json").out)
    assert told["rows"]["documents"] == 1
    command = ("database", "restore", "chimera.backup", "--database-url", "sqlite:///restored.db")
    assert "Nothing was changed" in chimera(*command, "--dry-run").out
    assert not Path("restored.db").exists()
    assert "Next: chimera serve" in chimera(*command).out
    refused = chimera(*command)
    assert refused.code == 2
    assert "--force" in refused.err
    told = json.loads(chimera(*command, "--force", "--json").out)
    assert (told["restored"], told["rows"]["documents"]) == (True, 1)
    assert told["revision"] == told["from"]["revision"]
    assert kept("sqlite:///restored.db") == ["one"]


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("backup nowhere/a.backup --database-url sqlite:///here.db", 2, "the folder nowhere is not there"),
        ("backup a.backup --database-url sqlite:///missing.db", 3, "there is no database at missing.db"),
        ("backup a.backup --database-url sqlite:///empty.db", 3, "holds no tables yet"),
        ("backup . --database-url sqlite:///here.db", 2, "is no file"),
        ("backup a.backup --database-url postgresql://u:correct-horse@127.0.0.1:1/x", 3, "cannot be used"),
        ("restore missing.backup --database-url sqlite:///new.db", 2, "cannot read missing.backup"),
        ("restore here.db --database-url sqlite:///new.db", 2, "is no backup"),
    ],
)
def test_what_cannot_be_done_is_told_and_leaves_nothing(
    chimera: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, code: int, told: str
) -> None:
    """What is wrong, in one line, without the password."""
    monkeypatch.chdir(tmp_path)
    upgrade("sqlite:///here.db")
    Path("empty.db").touch()
    before = {path.name for path in tmp_path.iterdir() if "empty" not in path.name}
    result = chimera("database", *command.split())
    assert (result.code, result.out) == (code, ""), result
    assert told in result.err
    assert "correct-horse" not in result.err
    assert {path.name for path in tmp_path.iterdir() if "empty" not in path.name} == before


def test_a_full_disk_leaves_the_old_backup_and_the_old_database(
    chimera: Shell, large: Path, small_disk: Path
) -> None:
    """Exit code 3, what was there is as it was, and nothing half-done lies about."""
    old = small_disk / "old.backup"
    old.write_bytes(b"the last good one")
    source = f"sqlite:///{large.parent}/large.db"
    full = chimera("database", "backup", old, "--force", "--database-url", source)
    assert (full.code, full.out) == (3, "")
    assert "No space left on device" in full.err
    assert [path.name for path in small_disk.iterdir()] == ["old.backup"]
    assert old.read_bytes() == b"the last good one"
    target = f"sqlite:///{small_disk}/chimera.db"
    keep(target, "old")
    full = chimera("database", "restore", large, "--force", "--database-url", target)
    assert (full.code, full.out) == (3, "")
    assert "full" in full.err
    assert kept(target) == ["old"]


def test_a_backup_that_is_killed_halfway_leaves_the_old_one(large: Path, tmp_path: Path) -> None:
    """The new one gets its name when it is whole."""
    old = tmp_path / "old.backup"
    old.write_bytes(b"the last good one")
    source = f"sqlite:///{large.parent}/large.db"
    process = start("database", "backup", str(old), "--force", "--database-url", source, cwd=tmp_path)
    kill_when(process, lambda: any(path.stat().st_size for path in tmp_path.glob(".old.backup.*.partial")))
    assert old.read_bytes() == b"the last good one"


def test_a_restore_that_is_killed_halfway_leaves_the_old_database(
    chimera: Shell, address: str, large: Path, tmp_path: Path
) -> None:
    """It is one transaction; the next try succeeds."""
    keep(address, "old")
    engine = open_engine(address)
    name = str(engine.url.database)

    def is_filling() -> bool:
        if engine.dialect.name == "sqlite":
            log = Path(f"{name}-wal")
            return log.exists() and log.stat().st_size > 1_000_000
        with engine.connect() as connection:
            query = "SELECT count(*) FROM pg_stat_activity WHERE datname = :name AND query LIKE 'INSERT%'"
            return bool(connection.scalar(text(query), {"name": name}))

    command = ("database", "restore", str(large), "--force", "--database-url", address)
    kill_when(start(*command, cwd=tmp_path), is_filling)
    engine.dispose()
    assert kept(address) == ["old"]
    assert chimera(*command).code == 0
    assert len(kept(address)) == LARGE


def kill_when(process: subprocess.Popen[str], is_time: Callable[[], bool]) -> None:
    """Kill a process in the middle of its work."""
    while not is_time():
        assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
