"""How are ranks run on this machine? In processes under a supervisor that ends all of them, whatever happens.

    caller --lifeline--> supervisor --> agent (torch elastic) --> fork server --> ranks

The kernel kills each of them when its parent ends, and the supervisor adopts what is orphaned, so that
nothing stays behind when one is killed; when the caller ends, the supervisor sees its lifeline cut.
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

from executor.errors import TrialError
from executor.launchers.findings import read_findings
from executor.launchers.launch import Launch, MemoryFile
from executor.launchers.outcome import Outcome

_SUPERVISOR_S = 30.0
"""So much longer than the run itself the supervisor may take: to start, to end everything, to answer."""
_END_S = 8.0
_LONGEST_FOLDER = 45


def launch_locally(launch: Launch) -> Outcome:
    """Run every rank and say how it ended; when this returns, or raises, no process or file is left.

    Raises TrialError if the supervisor itself could not answer. Whatever interrupts this call ends the run.
    """
    scratch = _make_scratch()
    document = MemoryFile("chimera-launch", launch.to_json().encode())
    command = [sys.executable, "-P", "-m", "executor.launchers.supervisor"]
    command += [str(os.getpid()), document.path, scratch]
    supervisor = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        answer = _read_answer(supervisor, within_s=launch.limits.timeout_s + _SUPERVISOR_S)
    finally:
        _end(supervisor)
        document.close()
        shutil.rmtree(scratch, ignore_errors=True)
    return read_findings(json.loads(answer), launch)


def _make_scratch() -> str:
    """A new folder, where there is room for the names of sockets in it, which may have 107 characters."""
    usual = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="chimera-run-", dir=usual if len(usual) <= _LONGEST_FOLDER else "/tmp")


def _read_answer(supervisor: subprocess.Popen[bytes], *, within_s: float) -> bytes:
    """All of stdout; what the supervisor says on stderr is the reason if there is nothing."""
    deadline = time.monotonic() + within_s
    parts: dict[int, list[bytes]] = {
        stream.fileno(): [] for stream in (supervisor.stdout, supervisor.stderr) if stream
    }
    poll = select.poll()
    for descriptor in parts:
        poll.register(descriptor, select.POLLIN)
    opened = len(parts)
    while opened:
        left_s = deadline - time.monotonic()
        if left_s < 0:
            raise TrialError(
                f"the supervisor of the run (process {supervisor.pid}) gave no answer within {within_s:g} s "
                "and was ended; the machine may be overloaded, or somebody stopped it: try again"
            )
        for descriptor, _ in poll.poll(min(1.0, left_s) * 1000):
            part = os.read(descriptor, 1 << 20)
            parts[descriptor].append(part)
            if not part:
                poll.unregister(descriptor)
                opened -= 1
    answer, said = (b"".join(part) for part in parts.values())
    if not answer:
        code = supervisor.wait(_END_S)
        reason = said.decode("utf-8", "replace").strip()[-2000:]
        raise TrialError(
            f"the supervisor of the run ended with {code} before it answered: {reason or 'it said nothing'}"
        )
    return answer


def _end(supervisor: subprocess.Popen[bytes]) -> None:
    """Cut the lifeline and wait; a supervisor that does not end by itself is killed, and with it the rest."""
    if supervisor.stdin:
        supervisor.stdin.close()
    try:
        supervisor.wait(_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(supervisor.pid, signal.SIGKILL)
        supervisor.wait()
    for stream in (supervisor.stdout, supervisor.stderr):
        if stream:
            stream.close()
