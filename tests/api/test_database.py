"""Is the schema made, compared and upgraded the same way on both databases?"""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta, timezone
from importlib.resources import files
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, insert, inspect, select, text
from sqlalchemy.exc import StatementError

from api.errors import DatabaseError, SchemaError
from api.storage.database import Database, current_revision, migrating, open_database, upgrade
from api.storage.engine import open_engine
from api.storage.tables import IdempotencyKey, JobRow, Study, StudyStatus, Table


def key(name: str, *, at: datetime) -> IdempotencyKey:
    """A row of the smallest table."""
    return IdempotencyKey(
        owner="someone", key=name, fingerprint="f", token="t", locked_until=at, status=None, created_at=at
    )


def migrate(connection: Connection, step: Callable[[Config, str], None], revision: str) -> None:
    """Run one Alembic command on a connection."""
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    config.attributes["connection"] = connection
    step(config, revision)


def test_the_models_and_the_migrations_agree(address: str) -> None:
    """After all migrations nothing would be left to generate."""
    upgrade(address)
    engine = open_engine(address)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []
    engine.dispose()


def test_every_migration_can_be_undone_and_done_again(address: str) -> None:
    """Down to nothing and up again ends at the same schema."""
    first = upgrade(address)
    engine = open_engine(address)
    with engine.begin() as connection:
        migrate(connection, command.downgrade, "base")
    assert set(inspect(engine).get_table_names()) == {"alembic_version"}
    engine.dispose()
    assert upgrade(address) == first
    assert upgrade(address) == first


def test_a_database_of_the_first_release_keeps_what_it_holds(address: str) -> None:
    """Every later revision is applied to rows, not to empty tables."""
    upgrade(address, revision="0001")
    engine = open_engine(address)
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    with engine.begin() as connection:
        connection.execute(
            insert(Study).values(
                id="0" * 26, created_by="local", status=StudyStatus.DONE, model="m", cluster="c", devices=1,
                mini_batch_size=1, request={"devices": 1}, created_at=moment, updated_at=moment,
            )
        )  # fmt: skip
        connection.execute(
            insert(IdempotencyKey).values(
                owner="local", key="k", fingerprint="f", token="t", locked_until=moment, created_at=moment
            )
        )
    engine.dispose()
    upgrade(address)
    database = open_database(address)
    with database.reading() as session:
        assert session.scalars(select(Study.request)).all() == [{"devices": 1}]
        assert session.scalars(select(IdempotencyKey.key)).all() == ["k"]
        assert session.scalars(select(JobRow)).all() == []
    database.close()


def test_processes_that_upgrade_at_once_do_not_disturb_each_other(address: str) -> None:
    """The schema is made once, by whoever comes first; the others wait and find it."""
    program = "import sys; from api.storage.database import upgrade; print(upgrade(sys.argv[1]))"
    processes = [
        subprocess.Popen([sys.executable, "-P", "-c", program, address], stdout=-1, stderr=-1, text=True)
        for _ in range(4)
    ]
    outcomes = [(process.communicate(timeout=120), process.returncode) for process in processes]
    assert [code for _, code in outcomes] == [0] * 4, outcomes
    assert len({output for (output, _), _ in outcomes}) == 1


def test_what_the_address_says_of_a_connection_counts(postgres_url: str) -> None:
    """Beside what the service sets itself; libpq and psycopg read the rest of the address."""
    more = "options=-csearch_path%3Dpg_catalog&connect_timeout=3&prepare_threshold=none"
    engine = open_engine(f"{postgres_url}{'&' if '?' in postgres_url else '?'}{more}")
    with engine.connect() as connection:
        shown = [
            connection.execute(text(f"SHOW {name}")).scalar_one() for name in ("search_path", "lock_timeout")
        ]
        driver = connection.connection.driver_connection
        assert driver is not None
        assert driver.prepare_threshold is None
    assert shown == ["pg_catalog", "15s"]
    engine.dispose()
    with pytest.raises(DatabaseError, match="a number or none"):
        open_engine("postgresql://127.0.0.1/x?prepare_threshold=often")


def test_who_migrates_waits_longer_than_for_other_locks(postgres_url: str) -> None:
    """Another process may restore a large backup meanwhile."""
    impatient = f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-clock_timeout%3D50"
    engine = open_engine(postgres_url)
    with ThreadPoolExecutor(1) as pool:
        with migrating(engine):
            waiting = pool.submit(upgrade, impatient)
            assert not wait([waiting], timeout=0.3).done
        assert waiting.result(timeout=30)
    engine.dispose()


def test_sqlite_is_migrated_when_it_is_opened(tmp_path: Path) -> None:
    """One process owns the file, so nobody needs to run a command first."""
    database = open_database(f"sqlite:///{tmp_path}/deep/down/chimera.db")
    assert current_revision(database.engine)
    with database.reading() as session:
        modes = [
            session.scalar(text(f"PRAGMA {name}")) for name in ("journal_mode", "foreign_keys", "synchronous")
        ]
    assert modes == ["wal", 1, 1]
    files = list((tmp_path / "deep" / "down").iterdir())
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}
    database.close()


def test_postgres_that_is_behind_is_refused_with_the_command(postgres_url: str) -> None:
    """Other processes may be serving from it, so it is not upgraded unasked."""
    with pytest.raises(SchemaError, match=r"holds no tables yet.*`chimera database upgrade`"):
        open_database(postgres_url)
    upgrade(postgres_url)
    open_database(postgres_url).close()


def test_a_schema_of_a_newer_version_is_refused(address: str) -> None:
    """An unknown revision is not touched."""
    upgrade(address)
    engine = open_engine(address)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'from-the-future'"))
    engine.dispose()
    with pytest.raises(SchemaError, match=r"from-the-future.*newer version"):
        open_database(address)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("sqlite:////proc/nowhere/chimera.db", "cannot be made"),
        ("sqlite:////proc/version", "cannot be used"),
        ("sqlite://", "name a file"),
        ("postgresql://nobody@127.0.0.1:1/nothing", "cannot be used"),
    ],
)
def test_a_database_that_cannot_be_opened_is_told_without_a_trace(address: str, told: str) -> None:
    """The message names the place, so that it can be corrected."""
    with pytest.raises(DatabaseError, match=told):
        open_database(address)


def test_moments_come_back_in_utc_and_naive_ones_are_refused(address: str) -> None:
    """The same on SQLite, which forgets zones, and on Postgres."""
    upgrade(address)
    database = open_database(address)
    moment = datetime(2026, 7, 1, 9, 30, tzinfo=timezone(timedelta(hours=2)))
    with database.writing() as session:
        session.add(key("zoned", at=moment))
    with database.reading() as session:
        found = session.scalars(select(IdempotencyKey.created_at)).one()
    assert found == moment
    assert found.tzinfo is UTC
    with pytest.raises(StatementError, match="needs a time zone"), database.writing() as session:
        session.add(key("naive", at=moment.replace(tzinfo=None)))
    database.close()


def test_a_block_that_raises_leaves_nothing_behind(address: str) -> None:
    """Writing is committed at the end of the block, whole or not at all."""
    upgrade(address)
    database = open_database(address)

    def write_and_fail(database: Database) -> None:
        with database.writing() as session:
            session.add(key("half", at=datetime(2026, 7, 1, tzinfo=UTC)))
            session.flush()
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        write_and_fail(database)
    with database.reading() as session:
        assert session.scalars(select(IdempotencyKey.key)).all() == []
    database.close()
