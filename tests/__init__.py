"""Tests, in a tree that mirrors the packages."""
