"""Tests of executor.worker."""
