"""Tests that start processes, browsers and installed wheels."""
