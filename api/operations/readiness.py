"""Can the service answer, and if not, what is in the way? Asked of the database by reading and by writing."""

import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from api.errors import DatabaseError
from api.service import Service
from api.storage.database import current_revision
from api.storage.engine import write_intent

MIN_FREE_BYTES = 32_000_000
"""Less, and the next studies and traces of jobs may not be written."""
LOOKED_EVERY = timedelta(seconds=1)
"""What was well is not asked again before, however many ask."""
MOST_WAITED_S = 5.0
_OF_A_LEASE = 6
"""Clocks may differ by so small a part of a job's lease: it is given by one process and judged by another."""

_WHAT_TO_DO = {
    "sqlite": "make its file, its folder and their disk writable for the service",
    "postgresql": "look at the server: it may be a standby, be full, or wait for a lock",
}


class Readiness:
    """The last answer, and how to get the next."""

    def __init__(self, service: Service, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._service, self._wall_clock = service, wall_clock
        self._file = _file_of(service.database.engine)
        self._began_with = _identity(self._file)
        self._well: tuple[datetime, str] | None = None

    def __call__(self) -> str:
        """The revision of the schema; raises DatabaseError that says what is wrong and what to do."""
        now = self._service.clock()
        if self._well is not None and now - self._well[0] < LOOKED_EVERY:
            return self._well[1]
        self._well = None
        if self._file is not None:
            _check_file(self._file, self._began_with)
        revision = current_revision(self._service.database.engine)
        _check_writing(self._service.database.engine)
        most_s = self._service.settings.lease_seconds / _OF_A_LEASE
        _check_clock(self._service.database.engine, self._wall_clock, most_s=max(1.0, most_s))
        self._well = now, revision
        return revision


def free_bytes(engine: Engine) -> int | None:
    """What is left on the disk of an SQLite file; None for a server."""
    file = _file_of(engine)
    if file is None:
        return None
    disk = os.statvfs(file.parent)
    return disk.f_bavail * disk.f_frsize


def _check_file(file: Path, began_with: tuple[int, int] | None) -> None:
    found = _identity(file)
    if found is None:
        raise DatabaseError(f"the database file {file} is gone: put it back, and start the service again")
    if found != began_with:
        raise DatabaseError(f"the database file {file} was replaced: start the service again")
    disk = os.statvfs(file.parent)
    if disk.f_flag & os.ST_RDONLY:
        raise DatabaseError(
            f"the disk of the database file {file} is mounted read-only: mount it for writing"
        )
    free = disk.f_bavail * disk.f_frsize
    if free < MIN_FREE_BYTES:
        raise DatabaseError(
            f"the disk of the database file {file} has {free / 1e6:,.1f} MB left, and at least "
            f"{MIN_FREE_BYTES / 1e6:,.0f} MB are needed: make room there"
        )


def _check_writing(engine: Engine) -> None:
    """Write what is there already, and commit it: nothing less shows a full disk or a standby."""
    try:
        with write_intent(engine).begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SET LOCAL lock_timeout = '2s'"))
            connection.execute(text("UPDATE alembic_version SET version_num = version_num"))
    except SQLAlchemyError as error:
        reason = " ".join(str(error.orig if isinstance(error, DBAPIError) else error).split())
        raise DatabaseError(
            f"the database cannot be written: {reason}. Next: {_WHAT_TO_DO[engine.dialect.name]}"
        ) from None


def _check_clock(engine: Engine, wall_clock: Callable[[], float], *, most_s: float) -> None:
    """Compare with the one clock that all processes share: who is ahead takes jobs from their workers."""
    if engine.dialect.name != "postgresql":
        return
    with engine.connect() as connection:
        began = wall_clock()
        there = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
        ended = wall_clock()
    # What the question took is not held against it.
    apart_s = min(0.0, ended - there) + max(0.0, began - there)
    if abs(apart_s) > most_s:
        way = "ahead of" if apart_s > 0 else "behind"
        raise DatabaseError(
            f"the clock of this host is {abs(apart_s):,.1f} s {way} that of the database, and at most "
            f"{most_s:,.1f} s are allowed (a sixth of CHIMERA_LEASE_SECONDS): have both kept by NTP"
        )


def _file_of(engine: Engine) -> Path | None:
    return Path(str(engine.url.database)) if engine.dialect.name == "sqlite" else None


def _identity(file: Path | None) -> tuple[int, int] | None:
    try:
        found = file.stat() if file is not None else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None
