"""What is computed from documents alone? Without the database and the web, so that any process can do it."""
