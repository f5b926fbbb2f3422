"""How is a program asked to run a launch, so that nothing of it outlives whoever asked?

`python -P -m MODULE CALLER LAUNCH SCRATCH ...` gets a lifeline as its stdin, in a session of its own. What it
writes to stdout are JSON documents, one a line: {"waits": text} for people meanwhile, and last its answer.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

from executor.errors import TrialError
from executor.launchers.launch import Launch, MemoryFile

Tell = Callable[[str], None]

_LONGEST_FOLDER = 45
_KEPT_BYTES = 20_000
"""Of what it says on stderr."""


def ask(
    module: str,
    launch: Launch,
    *,
    within_s: float,
    end_s: float = 8.0,
    arguments: Iterable[str] = (),
    tell: Tell | None = None,
) -> dict[str, Any]:
    """The answer; `tell` hears what it waits for. After `end_s` without its lifeline the program is killed.

    Raises TrialError if it does not answer. Whatever interrupts this call ends the run.
    """
    scratch = make_scratch()
    document = MemoryFile("chimera-launch", launch.to_json().encode())
    command = [sys.executable, "-P", "-m", module, str(os.getpid()), document.path, scratch, *arguments]
    program = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        return _read_answer(program, within_s=within_s, end_s=end_s, tell=tell)
    finally:
        _end(program, end_s)
        document.close()
        shutil.rmtree(scratch, ignore_errors=True)


def make_scratch() -> str:
    """A new folder, where there is room for the names of sockets in it, which may have 107 characters."""
    usual = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="chimera-run-", dir=usual if len(usual) <= _LONGEST_FOLDER else "/tmp")


def _read_answer(
    program: subprocess.Popen[bytes], *, within_s: float, end_s: float, tell: Tell | None
) -> dict[str, Any]:
    """The last document on stdout; what the program says on stderr is the reason if there is none."""
    out, err = (stream.fileno() for stream in (program.stdout, program.stderr) if stream)
    deadline = time.monotonic() + within_s
    rest, said, answer = b"", b"", None
    opened = {out, err}
    poll = select.poll()
    for descriptor in opened:
        poll.register(descriptor, select.POLLIN)
    while opened:
        left_s = deadline - time.monotonic()
        if left_s < 0:
            raise TrialError(
                f"the supervisor of the run (process {program.pid}) gave no answer within {within_s:g} s "
                "and was ended; the machine may be overloaded, or somebody stopped it: try again"
            )
        for descriptor, _ in poll.poll(min(1.0, left_s) * 1000):
            part = os.read(descriptor, 1 << 20)
            if not part:
                poll.unregister(descriptor)
                opened.remove(descriptor)
            if descriptor == err:
                said = (said + part)[-_KEPT_BYTES:]
                continue
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                answer = _hear(line, tell) or answer
    answer = _hear(rest, tell) or answer
    if answer is None:
        code = program.wait(end_s)
        reason = said.decode("utf-8", "replace").strip()[-2000:]
        raise TrialError(
            f"the supervisor of the run ended with {code} before it answered: {reason or 'it said nothing'}"
        )
    return answer


def _hear(line: bytes, tell: Tell | None) -> dict[str, Any] | None:
    """The answer, if the line is one."""
    if not line:
        return None
    document: dict[str, Any] = json.loads(line)
    if "waits" not in document:
        return document
    if tell is not None:
        tell(document["waits"])
    return None


def _end(program: subprocess.Popen[bytes], end_s: float) -> None:
    """Cut the lifeline and wait; a program that does not end by itself is killed, and with it the rest."""
    if program.stdin:
        program.stdin.close()
    try:
        program.wait(end_s)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    for stream in (program.stdout, program.stderr):
        if stream:
            stream.close()
