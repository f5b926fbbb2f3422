"""How does a task or an actor of a cluster hold its place? It starts the place's process and hears it.

The process has a lifeline: however its holder ends, the place ends the rank and all that came of it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

_END_S = 10.0


class PlaceProcess:
    """One place; keeps the last of what it said by its name: `here`, `seen`, `result`."""

    def __init__(self, launch: str, rank: int, *, address: str | None) -> None:
        """`launch` is its JSON, `address` that of this machine where the cluster knows it."""
        self.said: dict[str, Any] = {}
        self.count = 0
        """Documents that were said."""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "executor.launchers.gangs.place", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._order({"launch": launch, "rank": rank, "address": address})
        self._listener = threading.Thread(target=self._listen, name="place", daemon=True)
        self._listener.start()

    @property
    def ended(self) -> str | None:
        """How the process ended, if it has, which it should not before it is told to."""
        code = self._process.poll()
        return None if code is None else f"the process that sees to the rank ended with {code}"

    def begin(self, address: str, port: int) -> None:
        """Start the rank: the gang is complete."""
        self._order({"begin": {"address": address, "port": port}})

    def end(self) -> None:
        """End the rank and all that it left; returns when it is gone."""
        if self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._listener.join(_END_S)
        if self._process.stdout:
            self._process.stdout.close()

    def _order(self, document: dict[str, Any]) -> None:
        if self._process.stdin:
            with suppress(BrokenPipeError):
                self._process.stdin.write(json.dumps(document).encode() + b"\n")
                self._process.stdin.flush()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            self.said |= json.loads(line)
            self.count += 1
