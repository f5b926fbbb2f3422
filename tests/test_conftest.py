"""Do the shared fixtures give what they promise?"""

import psycopg
from sqlalchemy import make_url


def test_every_test_gets_an_empty_postgres_database(postgres_url: str) -> None:
    """Nothing that another test left is visible, and tables can be made."""
    url = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as connection:
        count = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
        connection.execute("CREATE TABLE made_here (id integer)")
    assert count == (0,)
