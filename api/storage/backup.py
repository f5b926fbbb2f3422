"""How is everything in a database written to one file? As of one moment, while the service goes on.

Rows, not pages: the same file is restored into SQLite or Postgres, and no tools of the server's own version
are needed. Values are written as they are stored; JSON as its text, byte for byte.
"""

from base64 import b64encode
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Engine,
    LargeBinary,
    MetaData,
    Text,
    cast,
    make_url,
    select,
    type_coerce,
)
from sqlalchemy import Table as AnyTable

from api.errors import DatabaseError, SchemaError
from api.storage.backup_file import BackupWriter, Header, check_place, writing
from api.storage.columns import UtcDateTime
from api.storage.database import known_revision, reported
from api.storage.engine import open_engine
from api.storage.tables import BrowserSession, Table

LEFT_OUT = frozenset({BrowserSession.__tablename__})
"""Whoever was signed in signs in again: a session that was ended must not come back."""
_AT_ONCE = 50
"""Rows that are fetched together: attachments have megabytes."""

Progress = Callable[[str, int], None]
"""Is told of each table, and how many rows it had."""


@dataclass(frozen=True)
class Backup:
    """What was written."""

    header: Header
    rows: dict[str, int]
    size_bytes: int


def back_up(
    address: str, path: Path, *, now: datetime, force: bool = False, progress: Progress = lambda *_: None
) -> Backup:
    """Write all that the database at `address` holds to `path`, whole or not at all.

    Raises BackupError for a place where nothing can be written, DatabaseError for a database that cannot be
    read, SchemaError for one without tables or of a newer version.
    """
    check_place(path, force=force)
    if is_missing(address):
        raise DatabaseError(
            f"there is no database at {make_url(address).database}: name the one that the service uses"
        )
    engine = open_engine(address)
    try:
        with reported(engine), _snapshot(engine) as connection:
            header = Header(
                revision=_revision(connection),
                release=version("chimera-tuner"),
                database=engine.dialect.name,
                made_at=now.isoformat(timespec="seconds"),
            )
            with writing(path, header, force=force) as writer:
                for table in tables_of(connection):
                    _write_table(connection, table, writer)
                    progress(table.name, writer.rows[table.name])
    finally:
        engine.dispose()
    return Backup(header, writer.rows, path.stat().st_size)


def tables_of(connection: Connection) -> list[AnyTable]:
    """The tables of the service as they are there, of whatever revision; those referred to come first."""
    found = MetaData()
    found.reflect(connection, only=lambda name, _: name in Table.metadata.tables)
    return [table for table in found.sorted_tables if table.name not in LEFT_OUT]


def is_json(column: Column[Any]) -> bool:
    """Whether a reflected column holds JSON."""
    return isinstance(column.type, JSON)


def _write_table(connection: Connection, table: AnyTable, writer: BackupWriter) -> None:
    writer.begin_table(table.name, [column.name for column in table.columns])
    query = select(*map(_stored, table.columns)).order_by(*table.primary_key)
    dumps = [_DUMPS.get(type(column.type.as_generic()), _as_is) for column in table.columns]
    for row in connection.execute(query.execution_options(yield_per=_AT_ONCE)):
        writer.row([None if value is None else dump(value) for dump, value in zip(dumps, row, strict=True)])


def _stored(column: Column[Any]) -> ColumnElement[Any]:
    if is_json(column):
        return cast(column, Text)
    return type_coerce(column, UtcDateTime()) if isinstance(column.type, DateTime) else column


def _as_is(value: Any) -> Any:
    return value


_DUMPS: dict[type, Callable[[Any], Any]] = {
    LargeBinary: lambda value: b64encode(value).decode(),
    DateTime: datetime.isoformat,
}


def _snapshot(engine: Engine) -> AbstractContextManager[Connection]:
    """A connection that sees the database as of one moment; who writes meanwhile does not wait for it."""
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine.connect()


def _revision(connection: Connection) -> str:
    revision = known_revision(connection)
    if revision is None:
        raise SchemaError("the database holds no tables yet: there is nothing to back up")
    return revision


def is_missing(address: str) -> bool:
    """Whether it names an SQLite file that is not there: opening would make it."""
    url = make_url(address)
    return url.get_backend_name() == "sqlite" and not Path(str(url.database)).is_file()
