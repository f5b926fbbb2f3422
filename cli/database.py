"""`chimera database`: is the service's database ready for this version?"""

import click

from cli.errors import DONE


@click.group(epilog="\b\nExample:\n  chimera database upgrade --database-url sqlite:///chimera.db")
def database() -> None:
    """Prepare the service's database."""


@database.command(epilog="\b\nExample:\n  chimera database upgrade --database-url sqlite:///chimera.db")
@click.option(
    "--database-url",
    metavar="URL",
    show_default="CHIMERA_DATABASE_URL, else an SQLite file in your data folder",
    help="sqlite:///FILE or postgresql://USER@HOST/NAME.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def upgrade(database_url: str | None, as_json: bool) -> int:
    """Create the tables, or bring them to this version's revision; safe to repeat."""
    import json

    from api.settings import Settings
    from api.storage.database import upgrade as upgrade_schema

    settings = Settings.from_environment(database_url=database_url)
    revision = upgrade_schema(settings.database_url)
    if as_json:
        click.echo(json.dumps({"revision": revision}))
    else:
        click.echo(f"The database is at revision {revision}. Next: chimera serve")
    return DONE
