"""Where do tests get databases? From a Postgres server, also as copies of one that is migrated already."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
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


def wait_for_no_disk(server: str) -> None:
    """What a server of the tests alone holds need not outlive a crash of the machine."""
    _execute(server, *(f"ALTER SYSTEM SET {setting} = off" for setting in UNSAFE), "SELECT pg_reload_conf()")


def _execute(server: str, *statements: str) -> None:
    address = make_url(server).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
