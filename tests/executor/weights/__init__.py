"""Tests of executor.weights."""
