"""Tests of executor.crossover."""
