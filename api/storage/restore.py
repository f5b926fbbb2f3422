"""How does a backup become a database again? In one transaction: until it is committed, nothing has changed.

The schema is made as it was where the backup was written, the rows are put in, and then both are brought to
the revision of this release, as an upgrade would have done.
"""

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    DateTime,
    Integer,
    LargeBinary,
    MetaData,
    Text,
    bindparam,
    cast,
    func,
    insert,
    select,
)
from sqlalchemy import Table as AnyTable
from sqlalchemy.types import TypeEngine

from api.errors import BackupError
from api.storage.backup import Progress, is_json, is_missing, tables_of
from api.storage.backup_file import Header, Row, TableStart, read_backup
from api.storage.columns import UtcDateTime
from api.storage.database import known_revision, migrate, migrating, reported, revisions
from api.storage.engine import open_engine
from api.storage.tables import Table

_AT_ONCE = 50
_VERSIONS = "alembic_version"


@dataclass(frozen=True)
class Contents:
    """What a backup holds."""

    header: Header
    rows: dict[str, int]


def check_backup(path: Path) -> Contents:
    """Read a backup to its end; raises BackupError unless it is whole and of a revision known here."""
    header, rows, table = None, dict[str, int](), ""
    for entry in read_backup(path):
        if isinstance(entry, Header):
            header = entry
        elif isinstance(entry, TableStart):
            table = entry.name
            rows[table] = 0
        else:
            rows[table] += 1
    if header is None:
        raise BackupError(f"the backup {path} is empty: take another copy of it")
    newest, known = revisions()
    if header.revision not in known:
        raise BackupError(
            f"the backup {path} is of revision {header.revision} (release {header.release}) and this release "
            f"knows those up to {newest}: restore it with the release that made it or a later one"
        )
    return Contents(header, rows)


def restore(
    address: str,
    path: Path,
    *,
    force: bool = False,
    dry_run: bool = False,
    progress: Progress = lambda *_: None,
) -> tuple[Contents, str]:
    """Fill the database at `address` from a backup; what was restored, and the revision it is at now.

    Raises BackupError, and changes nothing, for a file that is not whole and, unless `force`, for a database
    that holds something; DatabaseError where it cannot be written. `dry_run` changes nothing in any case.
    """
    contents = check_backup(path)
    if dry_run and is_missing(address):
        return contents, contents.header.revision
    engine = open_engine(address)
    try:
        with reported(engine), migrating(engine) as connection:
            known_revision(connection)
            if not force:
                _check_empty(connection, engine.url.render_as_string(hide_password=True))
            if dry_run:
                return contents, contents.header.revision
            _load(connection, path, revision=contents.header.revision, progress=progress)
            return contents, migrate(connection, "head")
    finally:
        engine.dispose()


def load(address: str, path: Path) -> None:
    """Fill an empty database as its release left it, and leave its revision as it was."""
    revision = check_backup(path).header.revision
    engine = open_engine(address)
    try:
        with reported(engine), migrating(engine) as connection:
            _load(connection, path, revision=revision, progress=lambda *_: None)
    finally:
        engine.dispose()


def _load(connection: Connection, path: Path, *, revision: str, progress: Progress) -> None:
    _drop(connection)
    migrate(connection, revision)
    _fill(connection, path, progress)


def _check_empty(connection: Connection, where: str) -> None:
    for table in tables_of(connection):
        if connection.execute(select(*table.primary_key).limit(1)).first() is not None:
            raise BackupError(
                f"the database {where} holds something, in {table.name} for one: restore into an empty "
                "database, or replace what it holds with --force"
            )


def _drop(connection: Connection) -> None:
    found = MetaData()
    found.reflect(connection, only=lambda name, _: name in {*Table.metadata.tables, _VERSIONS})
    found.drop_all(connection)


def _fill(connection: Connection, path: Path, progress: Progress) -> None:
    """Put the rows in; the schema is that of the backup."""
    tables = {table.name: table for table in tables_of(connection)}
    table: _Filling | None = None
    for entry in read_backup(path):
        if isinstance(entry, list):
            if table is not None:
                table.add(entry)
            continue
        if table is not None:
            table.end(progress)
        table = _Filling(connection, _columns_of(entry, tables)) if isinstance(entry, TableStart) else None
    if table is not None:
        table.end(progress)


def _columns_of(start: TableStart, tables: dict[str, AnyTable]) -> list[Column[Any]]:
    """The columns of a table in the order of its rows."""
    table = tables.get(start.name)
    if table is None or set(start.columns) != set(table.columns.keys()):
        raise BackupError(f"the table {start.name} of the backup is not one of its revision: it was changed")
    return [table.columns[name] for name in start.columns]


class _Filling:
    """A table that gets its rows, some at a time."""

    def __init__(self, connection: Connection, columns: list[Column[Any]]) -> None:
        self._connection, self._table = connection, columns[0].table
        postgres = connection.dialect.name == "postgresql"
        places = {
            column.name: _place(column, f"v{number}", postgres) for number, column in enumerate(columns)
        }
        self._insert = insert(self._table).values(places)
        self._loads = [_LOADS.get(type(column.type.as_generic()), _as_is) for column in columns]
        self._waiting: list[dict[str, Any]] = []
        self._count = 0

    def add(self, row: Row) -> None:
        """One row more."""
        values = [
            None if value is None else load(value) for load, value in zip(self._loads, row, strict=True)
        ]
        self._waiting.append({f"v{number}": value for number, value in enumerate(values)})
        if len(self._waiting) == _AT_ONCE:
            self._write()

    def end(self, progress: Progress) -> None:
        """These were all."""
        self._write()
        if self._connection.dialect.name == "postgresql":
            self._count_on()
        progress(self._table.name, self._count)

    def _write(self) -> None:
        if self._waiting:
            self._connection.execute(self._insert, self._waiting)
        self._count += len(self._waiting)
        self._waiting = []

    def _count_on(self) -> None:
        """Have Postgres count on from the largest number; what is not counted has no sequence, and stays."""
        for column in self._table.primary_key:
            if isinstance(column.type, Integer):
                sequence = func.pg_get_serial_sequence(self._table.name, column.name)
                largest = select(func.max(column)).scalar_subquery()
                self._connection.execute(select(func.setval(sequence, largest)))


def _place(column: Column[Any], name: str, postgres: bool) -> Any:
    """Where a value goes in, as it is stored. SQLite would take a cast to JSON for one to a number."""
    if is_json(column):
        bound = bindparam(name, type_=Text())
        return cast(bound, JSON()) if postgres else bound
    kind: TypeEngine[Any] = UtcDateTime() if isinstance(column.type, DateTime) else column.type
    return bindparam(name, type_=kind)


def _as_is(value: Any) -> Any:
    return value


_LOADS: dict[type, Callable[[Any], Any]] = {LargeBinary: b64decode, DateTime: datetime.fromisoformat}
