"""When does a worker leave? After its job when it is asked once, at once when it is asked again."""

from __future__ import annotations

import os
import select
import signal
import time

GRACE_S = 10.0
"""How long a worker that leaves at once tries to say so to a service that does not answer."""


class DepartedError(Exception):
    """The worker leaves, and waits no longer."""


class Departure:
    """What signals asked for. Handlers only set numbers and write into a pipe, which wakes who waits."""

    def __init__(self, *, drain_s: float) -> None:
        """`drain_s` is how long the job at hand may go on after the first signal."""
        self._drain_s = drain_s
        self._asked_at: float | None = None
        self._hurried_at: float | None = None
        self.at_work = False
        """Whether there is a job at hand."""
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)

    def listen(self) -> None:
        """Take SIGTERM and SIGINT from now on."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._hear)

    def ask(self) -> None:
        """Leave after the job at hand; asked again, at once."""
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
        elif self._hurried_at is None:
            self._hurried_at = now
        try:
            os.write(self._writing, b".")
        except BlockingIOError:
            return

    @property
    def asked(self) -> bool:
        """Whether no further job should be taken."""
        return self._asked_at is not None

    @property
    def at_once(self) -> bool:
        """Whether the job at hand should be given back."""
        return self._due is not None and time.monotonic() >= self._due

    def sleep(self, seconds: float) -> None:
        """As time.sleep; raises DepartedError where the worker should not wait."""
        if self._is_over():
            raise DepartedError
        if select.select([self._reading], [], [], seconds)[0]:
            os.read(self._reading, 1)
            if self._is_over():
                raise DepartedError

    def _is_over(self) -> bool:
        if not self.at_work:
            return self.asked
        return self._due is not None and time.monotonic() > self._due + GRACE_S

    @property
    def _due(self) -> float | None:
        """From when on the worker should be gone."""
        if self._asked_at is None or self._hurried_at is not None:
            return self._hurried_at
        return self._asked_at + self._drain_s

    def _hear(self, *_: object) -> None:
        self.ask()
