"""Tests of the documents and of the library that ships."""
