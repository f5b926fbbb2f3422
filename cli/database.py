"""`chimera database`: is the service's database ready for this version, and is there a copy of it?"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.errors import DONE

if TYPE_CHECKING:
    from api.storage.restore import Contents

Command = Callable[..., Any]


def _options(command: Command) -> Command:
    """Which database, and how the answer looks."""
    url = click.option(
        "--database-url",
        metavar="URL",
        show_default="CHIMERA_DATABASE_URL, else an SQLite file in your data folder",
        help="sqlite:///FILE or postgresql://USER@HOST/NAME.",
    )
    return url(click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command))


@click.group(epilog="\b\nExample:\n  chimera database upgrade --database-url sqlite:///chimera.db")
def database() -> None:
    """Prepare, back up and restore the service's database."""


@database.command(epilog="\b\nExample:\n  chimera database upgrade --database-url sqlite:///chimera.db")
@_options
def upgrade(database_url: str | None, as_json: bool) -> int:
    """Create the tables, or bring them to this version's revision; safe to repeat."""
    from api.storage.database import upgrade as upgrade_schema

    revision = upgrade_schema(_address(database_url))
    if as_json:
        click.echo(json.dumps({"revision": revision}))
    else:
        click.echo(f"The database is at revision {revision}. Next: chimera serve")
    return DONE


@database.command(
    epilog="\b\nExample:\n  chimera database backup chimera.backup --database-url sqlite:///chimera.db"
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace a file that is there already.")
@_options
def backup(*, file: Path, force: bool, database_url: str | None, as_json: bool) -> int:
    """Write all that the service keeps to FILE, as of one moment, while it goes on.

    The file holds the SHA-256 of keys, never keys, and gets mode 0600. It is there whole or not at all, and
    can be restored into SQLite or Postgres.
    """
    from api.service import now
    from api.storage.backup import back_up

    made = back_up(_address(database_url), file, now=now(), force=force, progress=_tell)
    if as_json:
        told = {"file": str(file), "size_bytes": made.size_bytes, **vars(made.header), "rows": made.rows}
        click.echo(json.dumps(told))
        return DONE
    click.echo(
        f"{file}: {sum(made.rows.values()):,} rows in {made.size_bytes / 1e6:,.2f} MB, "
        f"revision {made.header.revision}, as of {made.header.made_at}."
    )
    click.echo(f"Next: keep a copy on another machine; chimera database restore {file} --dry-run checks it")
    return DONE


@database.command(
    epilog="\b\nExample:\n  chimera database restore chimera.backup --database-url sqlite:///restored.db"
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace what the database holds.")
@click.option("--dry-run", is_flag=True, help="Check the file and the database, and change nothing.")
@_options
def restore(*, file: Path, force: bool, dry_run: bool, database_url: str | None, as_json: bool) -> int:
    """Fill an empty database from FILE, and bring it to this version's revision.

    Stop the service before. Whatever goes wrong, the database stays as it was. Who was signed in with a
    browser signs in again.
    """
    from api.storage.restore import restore as restore_database

    contents, revision = restore_database(
        _address(database_url), file, force=force, dry_run=dry_run, progress=_tell
    )
    if as_json:
        told = {"file": str(file), "restored": not dry_run, "revision": revision, "rows": contents.rows}
        click.echo(json.dumps(told | {"from": vars(contents.header)}))
        return DONE
    click.echo(_restored(contents, revision, file, dry_run=dry_run))
    return DONE


def _restored(contents: Contents, revision: str, file: Path, *, dry_run: bool) -> str:
    header = contents.header
    what = (
        f"{sum(contents.rows.values()):,} rows as of {header.made_at} (revision {header.revision}, "
        f"release {header.release})"
    )
    if dry_run:
        return f"{file} is whole and can be restored here: {what}. Nothing was changed."
    return f"Restored {what}. The database is at revision {revision}. Next: chimera serve"


def _address(database_url: str | None) -> str:
    from api.settings import Settings

    return Settings.from_environment(database_url=database_url).database_url


def _tell(table: str, rows: int) -> None:
    """On a terminal, how far it is."""
    if sys.stderr.isatty():
        click.echo(f"{table}: {rows:,}", err=True)
