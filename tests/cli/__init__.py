"""Tests of the command line, in this process where only answers matter and in another where streams do."""
