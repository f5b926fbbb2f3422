"""Tests of executor.trials."""
