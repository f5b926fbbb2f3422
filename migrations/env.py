"""How does Alembic run: on the connection it is given, or on CHIMERA_DATABASE_URL when started by hand."""

from alembic import context
from sqlalchemy import Connection

from api.settings import Settings
from api.storage.engine import open_engine
from api.storage.tables import Table


def run(connection: Connection) -> None:
    """Run the requested migrations; batch mode lets SQLite alter what it cannot alter in place."""
    context.configure(
        connection=connection,
        target_metadata=Table.metadata,
        render_as_batch=True,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with open_engine(Settings.from_environment().database_url).begin() as connection:
        run(connection)
