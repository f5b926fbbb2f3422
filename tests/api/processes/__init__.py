"""Tests of what is computed beside the service."""
