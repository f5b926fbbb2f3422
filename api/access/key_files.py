"""How does a process on this host get a key without a person? From a file that only its user can read."""

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from platformdirs import user_data_path
from sqlalchemy.exc import IntegrityError

from api.access.auth import LOCAL_CALLER
from api.access.keys import Scope, check_secret, create_key, find_key
from api.errors import SettingsError
from api.storage.database import Database
from api.web.problems import InvalidProblem

_LONGEST_FILE = 1_000


def key_from_file(
    database: Database, path: Path, *, name: str, owner: str, scopes: Iterable[Scope], now: datetime
) -> str:
    """The key in a file, which is made (mode 0600) when missing; the database knows it afterwards.

    A key that was revoked stays so. Raises SettingsError when the file cannot be read, made or used.
    """
    try:
        secret = check_secret(_read_or_make(path), where=f"the key file {path}")
    except InvalidProblem as problem:
        raise SettingsError(problem.detail) from None
    except OSError as error:
        raise SettingsError(f"the key file {path} cannot be used: {error.strerror or error}") from None
    # Another process that starts with the same file may be quicker.
    with suppress(IntegrityError), database.writing() as session:
        if find_key(session, secret) is None:
            create_key(
                session, name=name, owner=owner, scopes=scopes, created_by=owner, now=now, secret=secret
            )
    return secret


def worker_key(database: Database, *, now: datetime) -> str:
    """The key of a worker that the service starts beside itself: for work, kept in the user's data folder."""
    path = user_data_path("chimera-tuner", appauthor=False) / "worker.key"
    return key_from_file(
        database, path, name="worker of chimera serve", owner=LOCAL_CALLER, scopes=[Scope.WORK], now=now
    )


def _read_or_make(path: Path) -> str:
    """The first line of the file; who comes second reads what the first one wrote."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"chimera_{secrets.token_urlsafe(32)}\n")
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(_LONGEST_FILE).strip()
