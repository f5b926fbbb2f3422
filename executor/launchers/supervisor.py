"""Who sees to it that a run ends in time and leaves nothing behind? The parent of all of its processes.

`python -P -m executor.launchers.supervisor CALLER LAUNCH SCRATCH`: the id of the process that asked, the path
of a memory file with the Launch, and a folder to be removed. Its stdin is a lifeline: when the caller ends or
lets go of it, everything is ended. What was seen is written to stdout as one JSON document, last of all.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from executor.launchers.launch import Launch, MemoryFile, read_launch
from executor.launchers.lifeline import Abandoned, Lifeline
from executor.launchers.logs import make_logs, oom_kills, open_log, tail
from executor.launchers.processes import adopt_orphans, collect, end_descendants
from executor.launchers.progress import ProgressArea
from executor.launchers.rank_process import log_name
from executor.launchers.sightings import RankWatch
from executor.launchers.watchdog import Cause, Verdict, judge

_TICK_MS = 100
_EXIT_STATUS_S = 1.0
_AGENT_LOG = "agent.log"


class Supervisor:
    """Starts the agent of one launch, watches, and ends it."""

    def __init__(self, launch: Launch, *, launch_path: str, scratch: Path, lifeline: Lifeline) -> None:
        self._launch, self._launch_path, self._scratch = launch, launch_path, scratch
        self._lifeline = lifeline
        self._logs = make_logs(launch.logs, scratch)
        self._area = ProgressArea.create(launch.ranks)
        self._answer = MemoryFile("chimera-answer")
        self._poll = select.poll()
        self._poll.register(0, select.POLLIN)
        self._watch = RankWatch(self._area, self._poll)
        self._agent_status: int | None = None

    def run(self) -> dict[str, Any]:
        """What happened; every process is gone when this returns."""
        launched_ns, kills = time.monotonic_ns(), oom_kills()
        verdict = None
        try:
            self._agent = self._start_agent()
            verdict = self._wait(launched_ns)
            if verdict is not None and verdict.cause == Cause.GONE and verdict.rank is not None:
                self._await_exit_status(verdict.rank)
            told = self._describe(verdict)
            told["oom_kills"] = oom_kills() - kills
        finally:
            left = end_descendants()
            self._remove_files()
        return told | {"left": left, "elapsed_s": (time.monotonic_ns() - launched_ns) / 1e9}

    def _start_agent(self) -> int:
        command = [sys.executable, "-P", "-m", "executor.launchers.agent", str(os.getpid())]
        command += [self._launch_path, self._area.path, self._answer.path]
        with open_log(self._logs / _AGENT_LOG) as log:
            process = subprocess.Popen(
                command, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        process.returncode = 0  # this process collects its children itself
        return process.pid

    def _environment(self) -> dict[str, str]:
        """Where the ranks find each other (this machine alone), and where they leave files."""
        own = {
            "TMPDIR": str(self._scratch),
            "CHIMERA_RUN_LOGS": str(self._logs),
            "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "2",
            # Whatever interface a cluster's settings name: it need not exist here.
            "GLOO_SOCKET_IFNAME": "lo",
        }
        defaults: dict[str, str] = {}
        if self._launch.device == "cpu" and self._launch.threads is not None:
            defaults["OMP_NUM_THREADS"] = str(self._launch.threads)
        return defaults | dict(os.environ) | own

    def _wait(self, launched_ns: int) -> Verdict | None:
        """Until the agent has ended (None), the watchdog has a verdict, or nobody wants the answer."""
        while not self._lifeline.cut:
            self._note_exits()
            seen = self._watch.look()
            verdict = judge(
                seen, now_ns=time.monotonic_ns(), launched_ns=launched_ns, limits=self._launch.limits
            )
            if verdict is not None or self._agent_status is not None:
                return verdict
            self._poll.poll(_TICK_MS)
        raise Abandoned

    def _await_exit_status(self, rank: int) -> None:
        """The parent of a rank's process writes down how it ended, unless it was killed as well."""
        deadline = time.monotonic() + _EXIT_STATUS_S
        while self._area.read(rank).wait_status is None and time.monotonic() < deadline:
            if self._lifeline.cut:
                raise Abandoned
            time.sleep(_TICK_MS / 1000)

    def _note_exits(self) -> None:
        statuses = collect()
        self._agent_status = statuses.get(self._agent, self._agent_status)

    def _describe(self, verdict: Verdict | None) -> dict[str, Any]:
        answer = json.loads(self._answer.read() or b"{}")
        agent = answer | {"status": self._agent_status}
        rank = verdict.rank if verdict else min(map(int, answer.get("exit_codes", {})), default=None)
        log = _AGENT_LOG if rank is None else log_name(rank)
        return {
            "verdict": asdict(verdict) if verdict else None,
            "rank": rank,
            "ranks": self._watch.describe(),
            "agent": agent,
            "log": tail(self._logs / log) or tail(self._logs / _AGENT_LOG),
        }

    def _remove_files(self) -> None:
        shutil.rmtree(self._logs, ignore_errors=True)
        shutil.rmtree(self._scratch, ignore_errors=True)


def main() -> int:
    """Run one launch for the caller."""
    caller, launch_path, scratch = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    lifeline = Lifeline(caller)
    lifeline.listen()
    adopt_orphans()
    launch = read_launch(launch_path)
    supervisor = Supervisor(launch, launch_path=launch_path, scratch=scratch, lifeline=lifeline)
    try:
        told = supervisor.run()
        sys.stdout.write(json.dumps(told))
        sys.stdout.flush()
    except (Abandoned, BrokenPipeError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
