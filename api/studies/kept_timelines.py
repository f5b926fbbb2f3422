"""Which timelines were looked at lately? Kept in memory, compressed, by the hash of what they are made of."""

from collections.abc import Callable
from threading import Lock

from api.web.kept import Kept

MOST_BYTES = 64_000_000
"""Of all that is kept, compressed."""


class KeptTimelines:
    """Documents by key. One is made at a time: who waits for the same one need not make it again."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._kept: Kept[bytes] = Kept(most_bytes=most_bytes)
        self._turn = Lock()

    def find(self, key: str, make: Callable[[], bytes]) -> bytes:
        """The gzipped JSON under `key`, made where it is not there; raises what `make` does."""
        found = self._kept.find(key)
        if found is not None:
            return found
        with self._turn:
            found = self._kept.find(key)
            if found is None:
                found = make()
                self._kept.keep(key, found, size_bytes=len(found))
        return found

    @property
    def kept_bytes(self) -> int:
        """What is kept now, compressed."""
        return self._kept.bytes
