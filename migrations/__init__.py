"""One Alembic chain for SQLite and Postgres."""
