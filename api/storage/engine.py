"""How is each of the two databases opened?"""

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import URL
from sqlalchemy.pool import ConnectionPoolEntry

from api.errors import DatabaseError

SQLITE_BUSY_S = 15


def open_engine(address: str, *, pool_size: int = 20) -> Engine:
    """An engine for an SQLite file or a Postgres server; raises DatabaseError when there cannot be one."""
    url = _normalize(address)
    if url.get_backend_name() == "sqlite":
        return _open_sqlite(url)
    try:
        return create_engine(
            url,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_pre_ping=True,
            # What people sent is not for the log.
            hide_parameters=True,
            connect_args={"connect_timeout": 10, "options": "-c timezone=UTC -c lock_timeout=15000"},
        )
    except ModuleNotFoundError:
        raise DatabaseError("Postgres needs its driver: pip install 'chimera-tuner[postgres]'") from None


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


def _open_sqlite(url: URL) -> Engine:
    if url.database in {None, "", ":memory:"}:
        raise DatabaseError(
            "an SQLite database in memory is lost between requests: name a file, sqlite:///FILE"
        )
    _make_folder(Path(str(url.database)))
    engine = create_engine(url, connect_args={"timeout": SQLITE_BUSY_S}, hide_parameters=True)
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


def _set_pragmas(connection: Any, _entry: ConnectionPoolEntry) -> None:
    # The driver's own guesses about transactions are switched off: _begin states each one.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))
