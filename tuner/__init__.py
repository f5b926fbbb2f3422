"""What to run: pure answers computed from documents."""
