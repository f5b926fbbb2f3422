"""Tests of executor.tracing."""
