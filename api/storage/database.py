"""Where are studies kept, and does the schema there fit this version?"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import as_file, files

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from api.errors import DatabaseError, SchemaError
from api.storage.engine import open_engine, write_intent

# Any number that nothing else locks on in the same Postgres database.
MIGRATION_LOCK = 7_244_636_872
LONGEST_MIGRATION_S = 600
"""How long a process waits for another one that migrates or restores."""


class Database:
    """Transactions on one engine. A handler opens one around its work and never commits by itself."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writer = write_intent(engine)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction that changes nothing."""
        with Session(self.engine) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction that is committed where the block ends, and undone when it raises."""
        with Session(self._writer, expire_on_commit=False) as session, session.begin():
            yield session

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()


def open_database(address: str, *, pool_size: int = 20) -> Database:
    """Open a database whose schema is the one this version knows.

    SQLite is migrated here. Postgres may serve several processes, so its schema is only compared: raises
    SchemaError naming the command, DatabaseError when the database cannot be reached.
    """
    engine = open_engine(address, pool_size=pool_size)
    try:
        if engine.dialect.name == "sqlite":
            _migrate(engine)
        else:
            current_revision(engine)
    except BaseException:
        engine.dispose()
        raise
    return Database(engine)


def upgrade(address: str, *, revision: str = "head") -> str:
    """Bring the schema at `address` to `revision`; returns the one reached. Several processes may do this."""
    engine = open_engine(address)
    try:
        return _migrate(engine, revision)
    finally:
        engine.dispose()


def current_revision(engine: Engine) -> str:
    """The revision of the schema; raises SchemaError unless it is the newest one this version knows."""
    with reported(engine), engine.connect() as connection:
        found = known_revision(connection)
    newest, _ = revisions()
    if found != newest:
        if found is None:
            raise SchemaError("the database holds no tables yet: run `chimera database upgrade`")
        raise SchemaError(
            f"the database is at revision {found} and this version needs {newest}: stop the service, run "
            "`chimera database backup FILE`, then `chimera database upgrade`"
        )
    return newest


def known_revision(connection: Connection) -> str | None:
    """The revision of the schema, None without one; raises SchemaError for one of a newer version."""
    found = MigrationContext.configure(connection).get_current_revision()
    if found is not None and found not in revisions()[1]:
        raise SchemaError(
            f"the database is at revision {found}, which is unknown here: a newer version has upgraded it, "
            "and that version is needed"
        )
    return found


def _migrate(engine: Engine, revision: str = "head") -> str:
    with reported(engine), migrating(engine) as connection:
        return migrate(connection, revision)


def migrate(connection: Connection, revision: str) -> str:
    """Bring the schema to `revision` in the transaction of `migrating`; returns the one reached."""
    with as_file(files("migrations")) as folder:
        config = Config()
        config.set_main_option("script_location", str(folder).replace("%", "%%"))
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, revision)
        except CommandError as error:
            raise SchemaError(
                f"the database cannot be brought to revision {revision}: {error}. "
                "A database that a newer version has upgraded needs that version"
            ) from None
        return str(MigrationContext.configure(connection).get_current_revision())


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """A connection in one transaction that holds the lock on migrations."""
    sqlite = engine.dialect.name == "sqlite"
    with write_intent(engine).connect() as connection:
        if sqlite:
            # Altering copies a table and drops the old one. Inside a transaction this would have no effect.
            _driver_connection(connection).execute("PRAGMA foreign_keys=OFF")
        with connection.begin():
            if not sqlite:
                _wait_for_turn(connection)
            yield connection
        if sqlite:
            connection.invalidate()


def _wait_for_turn(connection: Connection) -> None:
    """Wait for whoever migrates or restores now, which may take minutes; for anything else as always."""
    connection.execute(text(f"SET LOCAL lock_timeout = '{LONGEST_MIGRATION_S}s'"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": MIGRATION_LOCK})
    connection.execute(text("SET LOCAL lock_timeout TO DEFAULT"))


def _driver_connection(connection: Connection) -> sqlite3.Connection:
    driver = connection.connection.driver_connection
    if not isinstance(driver, sqlite3.Connection):
        raise DatabaseError(f"expected an SQLite connection, found {type(driver).__name__}")
    return driver


@contextmanager
def reported(engine: Engine) -> Iterator[None]:
    """Raise DatabaseError, with the address and the reason, for what the driver raises."""
    try:
        yield
    except DBAPIError as error:
        where = engine.url.render_as_string(hide_password=True)
        reason = " ".join(str(error.orig).split())
        raise DatabaseError(f"the database {where} cannot be used: {reason}") from None


@cache
def revisions() -> tuple[str, frozenset[str]]:
    """The newest revision, and all."""
    with as_file(files("migrations")) as folder:
        scripts = ScriptDirectory(str(folder))
        return str(scripts.get_current_head()), frozenset(
            entry.revision for entry in scripts.walk_revisions()
        )
