"""How is one job done in a process of its own, which can be ended at any moment with all that it started?"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self

from executor.launchers.outcome import signal_name
from executor.worker.job_log import JobLog
from executor.worker.scratch import make_scratch
from executor.worker.started import Started
from executor.worker.surroundings import Surroundings
from tuner.attachments import Attachment
from tuner.messages import Cancelled, Done, Failed, Job, Outcome, Released

_TICK_S = 0.2
_PART_BYTES = 1 << 20
_PATIENCE_S = 10.0
"""How long a supervisor of ranks may take to end them when its job was killed."""
_END_S = 15.0
_LOG_LINES = 40


class Stop(StrEnum):
    """Why a job is ended before it answers."""

    CANCELLED = "cancelled"
    """Somebody cancelled it."""
    RELEASED = "released"
    """The worker leaves."""
    LOST = "lost"
    """The lease is over: the job is another worker's."""


@dataclass(frozen=True)
class Ending:
    """What to tell the service; None where it does not want to hear of this lease any more."""

    outcome: Outcome | None
    attachments: tuple[Attachment, ...] = ()


def do_job(
    job: Job, here: Surroundings, *, watch: Callable[[], Stop | None], tell: Callable[[dict[str, Any]], None]
) -> Ending:
    """Do it; `watch` is asked several times a second whether to stop, `tell` hears how far it is.

    When this returns no process of the job is left.
    """
    with JobProcess(job, here) as process:
        stop = process.wait(watch=watch, tell=tell)
    process.log.close()
    match stop:
        case Stop.LOST:
            return Ending(None)
        case Stop.CANCELLED:
            return Ending(Cancelled(), process.logs())
        case Stop.RELEASED:
            return Ending(Released(), process.logs())
    return process.ending()


@dataclass
class JobProcess:
    """A process of `executor.worker.child`, leading a session of its own."""

    job: Job
    here: Surroundings
    log: JobLog = field(default_factory=JobLog)
    _answer: dict[str, Any] | None = None
    _late: bool = False

    def __enter__(self) -> Self:
        self._started = Started()
        self._scratch = make_scratch()
        asked = {"payload": self.job.payload, "surroundings": self.here.document()}
        descriptor = os.memfd_create("chimera-job")
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps(asked).encode())
            file.flush()
            file.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "executor.worker.child", self.job.kind, str(os.getpid())],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=self.log.writing,
                env=os.environ | {"TMPDIR": self._scratch},
                start_new_session=True,
            )
        self.log.began()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._started.look()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._started.end(within_s=_END_S, patience_s=_PATIENCE_S)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def wait(
        self, *, watch: Callable[[], Stop | None], tell: Callable[[dict[str, Any]], None]
    ) -> Stop | None:
        """Until it has ended by itself (None), somebody wants it to stop, or its time is over (None)."""
        until = time.monotonic() + self.here.limit_s
        exited = os.pidfd_open(self._process.pid)
        answers = self._process.stdout.fileno() if self._process.stdout else -1
        os.set_blocking(answers, False)
        rest = b""
        try:
            with selectors.DefaultSelector() as selector:
                for descriptor in (answers, exited, self.log.reading):
                    selector.register(descriptor, selectors.EVENT_READ)
                while True:
                    ready = {key.fd for key, _ in selector.select(_TICK_S)}
                    self.log.read()
                    *lines, rest = (rest + _read(answers)).split(b"\n")
                    for line in lines:
                        self._hear(line, tell)
                    if exited in ready:
                        return None
                    if (stop := watch()) is not None:
                        return stop
                    if time.monotonic() > until:
                        self._late = True
                        return None
        finally:
            os.close(exited)

    def ending(self) -> Ending:
        """What became of it, once it has ended."""
        told = self._answer or {}
        if self._late:
            message = (
                f"the job was not done within {self.here.limit_s:,.0f} s, and was ended: ask for less, or "
            )
            message += "start the worker with a longer --limit"
            return Ending(Failed(message=message, evidence=self._evidence()), self.logs())
        if "done" in told:
            attached = tuple(Attachment.model_validate(each) for each in told["attachments"])
            return Ending(Done(result=told["done"]), attached + self.logs())
        if "failed" in told:
            return Ending(Failed.model_validate(told["failed"]), self.logs())
        return Ending(self._crashed(), self.logs())

    def logs(self) -> tuple[Attachment, ...]:
        """What the job printed, if anything."""
        packed = Attachment.pack("job.log", self.log.text()) if self.log.text() else None
        return (packed,) if packed else ()

    def _hear(self, line: bytes, tell: Callable[[dict[str, Any]], None]) -> None:
        told = json.loads(line)
        if "progress" in told:
            tell(told["progress"])
        else:
            self._answer = told

    def _crashed(self) -> Failed:
        code = self._process.returncode
        how = f"with exit code {code}" if code >= 0 else f"by signal {signal_name(-code)}"
        message = f"the process of the job was ended {how} before it answered: see job.log"
        if code == -signal.SIGKILL:
            message += "; SIGKILL comes from the kernel where memory ends, or from somebody"
        return Failed(message=message, retry=True, evidence=self._evidence())

    def _evidence(self) -> dict[str, Any]:
        code = self._process.returncode
        return {
            "exit_code": code if code >= 0 else None,
            "signal": signal_name(-code) if code < 0 else None,
            "log": self.log.text().splitlines()[-_LOG_LINES:],
        }


def _read(descriptor: int) -> bytes:
    """All that is there now."""
    parts = []
    with suppress(BlockingIOError):
        while part := os.read(descriptor, _PART_BYTES):
            parts.append(part)
    return b"".join(parts)
