"""Which timelines were looked at lately? Kept in memory, compressed, by the hash of what they are made of."""

import gzip
import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

MOST_BYTES = 64_000_000
"""Of all that is kept, compressed; the one that was not looked at for longest goes first."""
_LEVEL = 4


@dataclass
class KeptTimelines:
    """Documents by key. One is made at a time: a simulation takes a processor for up to a second."""

    most_bytes: int = MOST_BYTES
    _kept: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)
    _turn: Lock = field(default_factory=Lock)

    def find(self, key: str, make: Callable[[], dict[str, Any]]) -> bytes:
        """The gzipped JSON under `key`, made where it is not there; raises what `make` does."""
        found = self._look(key)
        if found is not None:
            return found
        with self._turn:
            found = self._look(key)
            if found is None:
                text = json.dumps(make(), separators=(",", ":"), allow_nan=False)
                found = gzip.compress(text.encode(), compresslevel=_LEVEL, mtime=0)
                self._keep(key, found)
        return found

    @property
    def kept_bytes(self) -> int:
        """What is kept now, compressed."""
        with self._lock:
            return sum(map(len, self._kept.values()))

    def _look(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def _keep(self, key: str, content: bytes) -> None:
        with self._lock:
            self._kept[key] = content
            total = sum(map(len, self._kept.values()))
            while total > self.most_bytes and self._kept:
                total -= len(self._kept.popitem(last=False)[1])
