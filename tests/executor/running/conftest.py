"""Processes that are kept from test to test: to start them is what costs."""

from collections.abc import Iterator

import pytest

from tests.executor.processes import Ranks


@pytest.fixture(scope="session")
def one() -> Iterator[Ranks]:
    """A process alone."""
    with Ranks(1) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def two() -> Iterator[Ranks]:
    """Two processes."""
    with Ranks(2) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def three() -> Iterator[Ranks]:
    """Three processes."""
    with Ranks(3) as ranks:
        yield ranks


@pytest.fixture(scope="session")
def four() -> Iterator[Ranks]:
    """Four processes."""
    with Ranks(4) as ranks:
        yield ranks
