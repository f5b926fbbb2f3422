"""Tests of executor.running."""
