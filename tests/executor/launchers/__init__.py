"""Tests of how ranks are started, watched and ended."""
