"""Tests of executor.stages."""
