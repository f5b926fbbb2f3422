"""Tests of api.reports."""
