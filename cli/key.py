"""`chimera key`: who may use the service? On its host, straight in its database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cli.errors import DONE, InputError

if TYPE_CHECKING:
    from api.service import Service

SCOPES = ("read", "submit", "work", "admin")
_MOST_LISTED = 500

Command = TypeVar("Command", bound=Callable[..., Any])


class Scopes(click.ParamType[tuple[str, ...]]):
    """Scopes as "read,submit"."""

    name = "scopes"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Read the text; anything but known scopes is a usage error."""
        words = value if isinstance(value, tuple) else tuple(word.strip() for word in value.split(","))
        for word in words:
            if word not in SCOPES:
                self.fail(f"{word[:40]!r} is not one of {', '.join(SCOPES)}", param, ctx)
        return words


def _with_database(command: Command) -> Command:
    add_url = click.option(
        "--database-url",
        metavar="URL",
        show_default="CHIMERA_DATABASE_URL, else an SQLite file in your data folder",
        help="sqlite:///FILE or postgresql://USER@HOST/NAME.",
    )
    add_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
    return add_url(add_json(command))


@click.group(epilog="\b\nExample:\n  chimera key create --name gpu-host-7 --scopes work")
def key() -> None:
    """Make, list and revoke API keys."""


@key.command(epilog="\b\nExample:\n  chimera key create --name gpu-host-7 --scopes work")
@click.option("--name", required=True, metavar="TEXT", help="What the key is for.")
@click.option(
    "--scopes",
    "--scope",
    type=Scopes(),
    multiple=True,
    required=True,
    metavar="SCOPE,...",
    help="read: look; submit: also ask, stop one's own; work: what a worker needs; admin: everything.",
)
@click.option("--owner", metavar="TEXT", show_default="the name", help="Who owns what is made with the key.")
@_with_database
def create(
    *,
    name: str,
    scopes: tuple[tuple[str, ...], ...],
    owner: str | None,
    database_url: str | None,
    as_json: bool,
) -> int:
    """Make a key and show it, this once: only its SHA-256 is kept."""
    import json

    from api.access import audit, keys

    with _service(database_url) as service, service.database.writing() as session:
        row, secret = keys.create_key(
            session,
            name=name,
            owner=owner or name,
            scopes=[keys.Scope(scope) for group in scopes for scope in group],
            created_by="command line",
            now=service.clock(),
        )
        audit.record_command(session, "create_key", row.id, now=service.clock())
        document = keys.key_entry(row) | {"key": secret}
    if as_json:
        click.echo(json.dumps(document))
        return DONE
    click.echo(secret)
    told = f"Key {row.id} ({', '.join(row.scopes)}) of {row.owner}. It is not shown again."
    if row.for_people:
        told += " From now on every request needs a key, unless CHIMERA_REQUIRE_KEYS is false."
    click.echo(f"{told} Next: export CHIMERA_API_KEY=...", err=True)
    return DONE


@key.command("list", epilog="\b\nExample:\n  chimera key list")
@_with_database
def list_keys(*, database_url: str | None, as_json: bool) -> int:
    """List the keys, the newest first, without their secrets."""
    import json

    from api.access import keys
    from cli.quantities import table

    found: list[dict[str, Any]] = []
    with _service(database_url) as service, service.database.reading() as session:
        cursor: str | None = None
        while True:
            page = keys.list_keys(session, cursor=cursor, limit=_MOST_LISTED)
            found += page["items"]
            if (cursor := page["next"]) is None:
                break
    if as_json:
        click.echo(json.dumps({"keys": found}))
        return DONE
    if not found:
        click.echo("There are no keys: requests from this host may read and submit. Next: chimera key create")
        return DONE
    header = ("id", "name", "owner", "scopes", "made", "last used", "revoked")
    for line in table(header, (_row(entry) for entry in found)):
        click.echo(line)
    return DONE


@key.command(epilog="\b\nExample:\n  chimera key revoke 01jexample0000000000000000")
@click.argument("identifier", metavar="ID")
@_with_database
def revoke(*, identifier: str, database_url: str | None, as_json: bool) -> int:
    """End a key: requests with it are refused from now on."""
    import json

    from api.access import audit, keys
    from api.web.problems import NotFoundProblem

    try:
        with _service(database_url) as service, service.database.writing() as session:
            document = keys.key_entry(keys.revoke_key(session, identifier, now=service.clock()))
            audit.record_command(session, "revoke_key", identifier, now=service.clock())
    except NotFoundProblem as problem:
        raise InputError(problem.detail) from None
    click.echo(json.dumps(document) if as_json else f"Revoked key {identifier} ({document['name']}).")
    return DONE


@contextmanager
def _service(database_url: str | None) -> Iterator[Service]:
    """The database of the service; what is no name for a key is bad input."""
    from api.service import Service
    from api.settings import Settings
    from api.storage.database import open_database
    from api.web.problems import InvalidProblem

    settings = Settings.from_environment(database_url=database_url)
    database = open_database(settings.database_url, pool_size=1)
    try:
        yield Service(settings, database)
    except InvalidProblem as problem:
        raise InputError(problem.detail) from None
    finally:
        database.close()


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    moments = (entry[moment] for moment in ("created_at", "last_used_at", "revoked_at"))
    days = (moment[:10] if moment else "-" for moment in moments)
    return (entry["id"], entry["name"], entry["owner"], ",".join(entry["scopes"]), *days)
