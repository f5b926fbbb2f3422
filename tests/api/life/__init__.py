"""Tests of studies that measure."""
