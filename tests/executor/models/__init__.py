"""Tests of executor.models."""
