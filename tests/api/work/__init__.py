"""Tests of jobs, workers and keys."""
