"""Where is it kept? Tables, and SQLite or Postgres below them."""
