"""What do the worker's tests share? A look at what was left behind."""

from collections.abc import Iterator

import pytest

from tests.executor.launchers.remains import Remains, watch_remains


@pytest.fixture
def remains(monkeypatch: pytest.MonkeyPatch) -> Iterator[Remains]:
    """Of everything that the test starts."""
    yield from watch_remains(monkeypatch)
