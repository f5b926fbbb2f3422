"""Is a backup as of one moment, whole or not at all, and does all of it come back?"""

import gzip
import json
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest
from sqlalchemy import select, text

from api.errors import BackupError, SchemaError
from api.service import Service
from api.settings import Settings
from api.storage.backup import back_up
from api.storage.backup_file import Header, writing
from api.storage.database import Database, open_database, upgrade
from api.storage.engine import open_engine
from api.storage.identifiers import new_identifier
from api.storage.restore import check_backup, restore
from api.storage.tables import BrowserSession, DocumentKind, StoredDocument, WorkerRow
from tests.api.conftest import Clock, connect
from tests.api.life.pool import Pool
from tests.api.reading import read_everything
from tests.api.revisions.filling import fill
from tests.api.work.factories import make_key

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def drop(address: str) -> None:
    """Lose the database."""
    engine = open_engine(address)
    if engine.dialect.name == "sqlite":
        for file in Path(str(engine.url.database)).parent.glob("chimera.db*"):
            file.unlink()
    else:
        with engine.begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()


def test_everything_comes_back_after_the_database_was_lost(
    address: str, clock: Clock, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every study, report, job, document and key reads as before, in the same database and the other kind."""
    upgrade(address)
    service = Service(
        Settings(database_url=address, work_in="threads"), open_database(address, pool_size=4), clock
    )
    client = fill(service)
    headers = {"Authorization": client.headers["authorization"]}
    before = read_everything(client, parts=("report",))
    file = tmp_path / "all.backup"
    made = back_up(address, file, now=NOW)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert sum(made.rows.values()) > 50
    service.database.close()
    drop(address)
    other = (
        str(request.getfixturevalue("postgres_url"))
        if address.startswith("sqlite")
        else f"sqlite:///{tmp_path}/other.db"
    )
    for target in (address, other):
        restore(target, file)
        back_up(target, tmp_path / "again.backup", now=NOW, force=True)
        assert lines(tmp_path / "again.backup") == lines(file)
    again = Service(
        Settings(database_url=address, work_in="threads"), open_database(address, pool_size=4), clock
    )
    after = read_everything(connect(again, headers=headers), parts=("report",))
    # Told by their addresses: they have megabytes.
    assert after.keys() == before.keys()
    assert [path for path in before if after[path] != before[path]] == []
    with again.database.reading() as session:
        assert session.scalars(select(BrowserSession)).all() == []
    # It goes on from there, with numbers that were not given before.
    assert Pool(again).work(1) == 1
    again.database.close()


def lines(file: Path) -> list[bytes]:
    """What a backup holds, in any order: its rows are sorted as their database sorts text."""
    return sorted(gzip.decompress(file.read_bytes()).splitlines()[1:-1])


def test_a_backup_is_of_one_moment_while_others_write(address: str, tmp_path: Path) -> None:
    """What was written together is there together or not at all."""
    upgrade(address)
    database = open_database(address)
    stop = Event()

    def write_pairs() -> int:
        count = 0
        while not stop.is_set():
            pair(database)
            count += 1
        return count

    with ThreadPoolExecutor() as threads:
        written = threads.submit(write_pairs)
        files = [tmp_path / f"{number}.backup" for number in range(5)]
        for file in files:
            back_up(address, file, now=NOW)
        stop.set()
    assert written.result() > 5
    database.close()
    counts = [check_backup(file).rows for file in files]
    assert all(rows["workers"] == rows["documents"] for rows in counts)
    assert counts[-1]["workers"] > counts[0]["workers"]


def pair(database: Database) -> None:
    """Two rows in two tables in one transaction."""
    name = new_identifier(datetime.now(UTC))
    with database.writing() as session:
        session.add(
            StoredDocument(
                kind=DocumentKind.CLUSTER, id=name, name=name, created_by="a", document={}, created_at=NOW
            )
        )
        session.flush()
        session.add(
            WorkerRow(id=name, owner="a", name="a", inventory={}, first_seen_at=NOW, last_seen_at=NOW)
        )


@pytest.fixture
def small(tmp_path: Path) -> tuple[str, Path]:
    """A database with little in it, and its backup."""
    address = f"sqlite:///{tmp_path}/chimera.db"
    upgrade(address)
    database = open_database(address)
    pair(database)
    database.close()
    file = tmp_path / "small.backup"
    back_up(address, file, now=NOW)
    return address, file


def test_a_backup_that_is_not_whole_is_refused_wherever_it_was_cut_or_changed(
    small: tuple[str, Path], tmp_path: Path
) -> None:
    """Before anything is touched."""
    _, file = small
    whole = file.read_bytes()
    lines = gzip.decompress(whole).splitlines(keepends=True)
    row = next(number for number, line in enumerate(lines) if line.startswith(b"["))
    cut = [whole[: len(whole) * part // 10] for part in range(10)]
    flipped = [
        bytes([*whole[:place], whole[place] ^ 1, *whole[place + 1 :]])
        for place in range(12, len(whole), len(whole) // 20)
    ]
    edited = [
        b"".join(lines[:row] + lines[row + 1 :]),
        b"".join(lines[:-1]),
        b"".join([*lines, lines[row]]),
        b"".join([*lines[:row], lines[row].replace(b'"a"', b'"b"'), *lines[row + 1 :]]),
        b"[]\n", b"{}\n", b"null\n", b"\n", b"[" * 100_000, b"\xff\xfe\n", lines[0], lines[0] + b"7\n",
    ]  # fmt: skip
    target = tmp_path / "target.db"
    for content in [*cut, *flipped, *map(gzip.compress, edited), b"SQLite format 3\0", b"PGDMP"]:
        file.write_bytes(content)
        with pytest.raises(BackupError):
            restore(f"sqlite:///{target}", file)
    assert not target.exists()


def test_a_backup_of_a_later_release_is_refused(tmp_path: Path) -> None:
    """Its tables are not known here; nor is a later kind of file."""
    for header, told in (
        (Header("9999", "9.0", "sqlite", "2030-01-01"), r"revision 9999 \(release 9\.0\).*that made it"),
        (Header("0001", "9.0", "sqlite", "2030-01-01", version=2), "version 2 of backups"),
    ):
        file = tmp_path / f"{header.revision}.backup"
        with writing(file, header, force=False):
            pass
        with pytest.raises(BackupError, match=told):
            restore(f"sqlite:///{tmp_path}/chimera.db", file)


def test_a_database_that_holds_something_is_replaced_only_when_told(
    small: tuple[str, Path], postgres_url: str
) -> None:
    """One without rows counts as empty; one that a later release upgraded is left alone in any case."""
    address, file = small
    with pytest.raises(BackupError, match=r"holds something, in documents for one.*--force"):
        restore(address, file)
    upgrade(postgres_url)
    for target in (address, postgres_url):
        restore(target, file, force=target == address)
        database = open_database(target)
        make_key(Service(Settings(), database), "read")
        database.close()
        restore(target, file, force=True)
        engine = open_engine(target)
        with engine.begin() as connection:
            assert connection.scalar(text("SELECT count(*) FROM api_keys")) == 0
            assert connection.scalar(text("SELECT count(*) FROM workers")) == 1
            connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        engine.dispose()
        with pytest.raises(SchemaError, match="newer version"):
            restore(target, file, force=True)


def test_json_comes_back_byte_for_byte(small: tuple[str, Path], postgres_url: str, tmp_path: Path) -> None:
    """Order of keys, digits of numbers, escapes: what was hashed keeps its hash."""
    address, file = small
    odd = '{"b": 1.10, "a": 1e400, "b": "\\u00e9\\ud83d\\ude00", "n": 12345678901234567890.5}'
    engine = open_engine(address)
    with engine.begin() as connection:
        connection.execute(text("UPDATE documents SET document = :odd"), {"odd": odd})
    engine.dispose()
    back_up(address, file, now=NOW, force=True)
    restore(postgres_url, file)
    there = tmp_path / "there.backup"
    back_up(postgres_url, there, now=NOW)
    assert json.dumps(odd).encode() in gzip.decompress(there.read_bytes())
    assert lines(there) == lines(file)
