"""How does a worker run beside the service? In a process that ends with it, and is started again."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0
"""A worker that ran for so long and ends is started again soon."""
LEAVE_S = 15.0

logger = logging.getLogger("uvicorn.error")


class WorkerBeside:
    """`chimera worker` for the service of this process.

    The kernel kills it when the thread that started it ends, and that thread lives as long as the service.
    """

    def __init__(self, url: str, *, key: str, as_json: bool) -> None:
        """`as_json` has it log one JSON object a line, as the service does."""
        self._url, self._key = url, key
        self._options = ["--json"] if as_json else []
        self._leaving = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name="worker-beside", daemon=True)

    def start(self) -> None:
        """Start it; it asks until the service answers."""
        self._thread.start()

    def ask_to_leave(self, *, then: Callable[[], None]) -> None:
        """Let it give its job back and leave, then go on; returns at once, as a signal's handler must."""

        def leave() -> None:
            self._leave()
            then()

        self._leaving.set()
        threading.Thread(target=leave, name="worker-leaves", daemon=True).start()

    def end(self) -> None:
        """Return when it has left."""
        self._leaving.set()
        self._leave()

    def _leave(self) -> None:
        """Killed, with its job, when it takes longer than LEAVE_S."""
        for end in (subprocess.Popen.terminate, subprocess.Popen.kill):
            with self._lock:
                if self._process is not None:
                    end(self._process)
            self._thread.join(LEAVE_S)

    def _keep(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._leaving.is_set():
            with self._lock:
                if not self._leaving.is_set():
                    self._process = self._begin()
            if self._process is None:
                return
            begun = time.monotonic()
            code = self._process.wait()
            if self._leaving.is_set():
                return
            logger.warning("the worker beside the service ended with %d: starting it again", code)
            self._leaving.wait(pause_s)
            steady = time.monotonic() - begun > STEADY_S
            pause_s = FIRST_PAUSE_S if steady else min(2 * pause_s, LONGEST_PAUSE_S)

    def _begin(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "cli.main", "worker", "--url", self._url, "--drain", "0"]
        return subprocess.Popen(
            [*command, *self._options, "--beside", str(os.getpid())],
            env=os.environ | {"CHIMERA_API_KEY": self._key},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
