"""How is each of the two databases opened?"""

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL, ExceptionContext
from sqlalchemy.pool import ConnectionPoolEntry

from api.errors import DatabaseError

SQLITE_BUSY_S = 15
_CONNECTION = {
    "connect_timeout": 10,
    # A server whose host is gone says nothing: without these a thread waits for it for a quarter of an hour.
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_OPTIONS = "-c timezone=UTC -c lock_timeout=15000"
_READ_ONLY = "25006"
"""What Postgres answers who would write to a standby."""


def open_engine(address: str, *, pool_size: int = 20) -> Engine:
    """An engine for an SQLite file or a Postgres server; raises DatabaseError when there cannot be one."""
    url = _normalize(address)
    if url.get_backend_name() == "sqlite":
        return _open_sqlite(url)
    return _open_postgres(url, pool_size=pool_size)


def write_intent(engine: Engine) -> Engine:
    """The same engine, whose transactions take the write lock where they begin.

    SQLite refuses to turn a reading transaction into a writing one while another process writes, whatever the
    busy timeout; Postgres does not need this and ignores it.
    """
    return engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")


def _normalize(address: str) -> URL:
    url = make_url(address)
    backend = url.get_backend_name()
    return url.set(drivername="postgresql+psycopg") if backend in {"postgres", "postgresql"} else url


def _open_postgres(url: URL, *, pool_size: int) -> Engine:
    # What the address says of the connection counts; SQLAlchemy alone would let these win.
    asked = url.query
    arguments: dict[str, Any] = {name: value for name, value in _CONNECTION.items() if name not in asked}
    options = [_OPTIONS, asked.get("options", "")]
    arguments["options"] = " ".join(str(part) for part in options if part)
    if "prepare_threshold" in asked:
        arguments["prepare_threshold"] = _threshold(str(asked["prepare_threshold"]))
    try:
        engine = create_engine(
            url,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_pre_ping=True,
            # What people sent is not for the log.
            hide_parameters=True,
            connect_args=arguments,
        )
    except ModuleNotFoundError:
        raise DatabaseError("Postgres needs its driver: pip install 'chimera-tuner[postgres]'") from None
    event.listen(engine, "handle_error", _leave_standby)
    return engine


def _threshold(text: str) -> int | None:
    """After how often psycopg has the server prepare a statement; never for `none`, as some poolers need."""
    if text.lower() == "none":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 6):
        raise DatabaseError(
            f"prepare_threshold={text[:20]!r} in the database's address: give a number or none"
        )
    return int(text)


def _leave_standby(context: ExceptionContext) -> None:
    """Leave a server that was the primary and takes no writes now: new connections find the next one."""
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


def _open_sqlite(url: URL) -> Engine:
    if url.database in {None, "", ":memory:"}:
        raise DatabaseError(
            "an SQLite database in memory is lost between requests: name a file, sqlite:///FILE"
        )
    _make_folder(Path(str(url.database)))
    engine = create_engine(url, connect_args={"timeout": SQLITE_BUSY_S}, hide_parameters=True)
    if "uri" not in url.query:
        event.listen(engine, "do_connect", partial(_create, Path(str(url.database))))
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def _make_folder(file: Path) -> None:
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"the folder of the database, {file.parent}, cannot be made: {error.strerror}. "
            "Set CHIMERA_DATABASE_URL to a place that can be written"
        ) from None


def _create(file: Path, *_: Any) -> None:
    """Other users of the host read nothing of a new database; SQLite gives its other files the same mode."""
    with suppress(OSError):
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _set_pragmas(connection: Any, _entry: ConnectionPoolEntry) -> None:
    # The driver's own guesses about transactions are switched off: _begin states each one.
    connection.isolation_level = None
    # SQLite's own knows the letters of ASCII alone, and a search would miss every other capital.
    connection.create_function("lower", 1, _lower, deterministic=True)
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value
