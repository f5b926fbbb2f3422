"""What was made lately and may be wanted again? Kept in memory by its key, as much as there is room for."""

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """Values that never change under their keys; what was not looked at for longest goes first."""

    def __init__(self, *, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        """Of all that is kept now."""
        self._kept: OrderedDict[str, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def find(self, key: str) -> Value | None:
        """The value under `key`, if it is still there."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: str, value: Value, *, size_bytes: int) -> None:
        """Keep a value, and let others go until there is room; where there never is, it is not kept."""
        if size_bytes > self.most_bytes:
            return
        with self._lock:
            _, before = self._kept.pop(key, (None, 0))
            self._kept[key] = value, size_bytes
            self.bytes += size_bytes - before
            while self.bytes > self.most_bytes:
                _, (_, gone) = self._kept.popitem(last=False)
                self.bytes -= gone
