"""Tests of executor.measuring."""
