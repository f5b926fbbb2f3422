"""How far has a process come that measures for this one? It writes that into a file which this one reads."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from executor.launchers.launch import MemoryFile
from executor.measuring.profiling import Progress

_LOOK_S = 0.2


class Overheard:
    """Progress that another process writes into a file, as a context manager that passes it on."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._file = progress, MemoryFile("chimera-told")
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="overheard", daemon=True)
        self._last = b""

    @property
    def path(self) -> str:
        """Where to write."""
        return self._file.path

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        if error is None:
            self._pass_on()
        self._file.close()

    def _listen(self) -> None:
        while not self._done.wait(_LOOK_S):
            self._pass_on()

    def _pass_on(self) -> None:
        now = self._file.read()
        words = now.decode("utf-8", "replace").split(" ", 2)
        if now == self._last or len(words) < 3 or not all(word.isdecimal() for word in words[:2]):
            return
        self._last = now
        self._progress(int(words[0]), int(words[1]), words[2])


def tell(path: str | None, done: int, *, total: int, what: str) -> None:
    """Write progress where an Overheard listens; nowhere without a path."""
    if path is not None:
        Path(path).write_text(f"{done} {total} {what}", encoding="utf-8")
