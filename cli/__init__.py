"""The `chimera` command."""
