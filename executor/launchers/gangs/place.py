"""Who sees to one rank, on the machine where it was placed? A process that starts, watches and ends it.

`python -P -m executor.launchers.gangs.place CALLER`, with JSON documents on stdin and stdout, one a line. It
is asked {"launch", "rank", "address"}, and answers {"here": {"host", "address", "port"}}; when the gang is
complete it hears {"begin": {"address", "port"}} and starts the rank. Then it says {"seen": ...} twice a
second, and {"result": text} when the rank is done. When its stdin ends, everything is ended.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from executor.launchers.asking import make_scratch
from executor.launchers.gangs.meeting_point import HeldPort, interface_towards
from executor.launchers.gangs.seen import Document, tell_sighting
from executor.launchers.launch import Launch, MemoryFile
from executor.launchers.logs import make_logs, oom_kills, open_log, tail
from executor.launchers.processes import adopt_orphans, collect, end_descendants
from executor.launchers.progress import ProgressArea, RankState
from executor.launchers.rank_process import log_name
from executor.launchers.sightings import RankWatch
from executor.launchers.watchdog import Sighting

_TICK_MS = 100
_PULSE_S = 0.5
_GANG_OF_A_PULSE = 200
"""Larger gangs are told of less often."""


class Orders:
    """Documents that come in on stdin."""

    def __init__(self, caller: int) -> None:
        self._caller, self._rest, self.ended = caller, b"", False
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._end)

    def next(self) -> Document | None:
        """Wait for one; None at the end."""
        while b"\n" not in self._rest and not self.ended:
            self.listen(1000)
        line, newline, self._rest = self._rest.partition(b"\n")
        return json.loads(line) if newline else None

    def listen(self, wait_ms: float) -> None:
        """Take what comes within a while."""
        ready, _, _ = select.select([0], [], [], wait_ms / 1000)
        if ready:
            part = os.read(0, 1 << 16)
            self._rest += part
            self.ended |= not part
        self.ended |= os.getppid() != self._caller

    def _end(self, *_: object) -> None:
        self.ended = True


class Place:
    """One rank of a launch."""

    def __init__(self, launch: Launch, rank: int, *, orders: Orders) -> None:
        self._launch, self._rank, self._orders = launch, rank, orders
        self._scratch = Path(make_scratch())
        self._logs = make_logs(launch.logs, self._scratch)
        self._launch_file = MemoryFile("chimera-launch", launch.to_json().encode())
        self._answer = MemoryFile("chimera-answer")
        self._area = ProgressArea.create(launch.ranks)
        self._watch = RankWatch(self._area, select.poll())
        self._gone_ns: int | None = None
        self._status: int | None = None
        self._kills = oom_kills()

    def run(self, address: str | None) -> None:
        """Until the rank is done and nobody listens any more; nothing of it is left then."""
        port = HeldPort(address)
        try:
            say(here={"host": socket.gethostname(), "address": port.address, "port": port.port})
            begin = self._orders.next()
            if begin is not None:
                self._process = self._start(**begin["begin"])
                self._attend()
        finally:
            end_descendants()
            shutil.rmtree(self._logs, ignore_errors=True)
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _start(self, address: str, port: int) -> int:
        command = [sys.executable, "-P", "-m", "executor.launchers.gangs.placed_rank", str(os.getpid())]
        command += [self._launch_file.path, self._area.path, self._answer.path]
        folder = self._launch.folder
        with open_log(self._log) as log:
            process = subprocess.Popen(
                command,
                env=self._environment(address, port),
                cwd=folder if folder and Path(folder).is_dir() else None,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        process.returncode = 0  # this process collects its children itself
        return process.pid

    def _environment(self, address: str, port: int) -> dict[str, str]:
        """What torch needs to find the other ranks, and where files go."""
        own = {
            "RANK": str(self._rank),
            "WORLD_SIZE": str(self._launch.ranks),
            "LOCAL_RANK": os.environ.get("SLURM_LOCALID", "0"),
            "LOCAL_WORLD_SIZE": str(self._launch.ranks),  # at most: nobody here knows
            "MASTER_ADDR": address,
            "MASTER_PORT": str(port),
            "TMPDIR": str(self._scratch),
            "CHIMERA_RUN_LOGS": str(self._logs),
        }
        interface = interface_towards(address)
        defaults = {"GLOO_SOCKET_IFNAME": interface} if interface else {}
        if self._launch.device == "cpu" and self._launch.threads is not None:
            own["OMP_NUM_THREADS"] = str(self._launch.threads)
        return defaults | dict(os.environ) | own

    def _attend(self) -> None:
        pulse_s = _PULSE_S * max(1.0, self._launch.ranks / _GANG_OF_A_PULSE)
        due, known, answered = 0.0, None, False
        while not self._orders.ended:
            self._note_exit()
            seen = self._look()
            news = (seen.record.state, seen.gone_ns is None, seen.stopped_ns is None, seen.record.wait_status)
            if news != known or time.monotonic() > due:
                known, due = news, time.monotonic() + pulse_s
                say(seen=self._tell(seen))
            if self._status == 0 and not answered and (answer := self._answer.read()):
                answered = True
                say(result=answer.decode())
            self._orders.listen(_TICK_MS)

    def _note_exit(self) -> None:
        statuses = collect()
        if self._process in statuses:
            self._status, self._gone_ns = statuses[self._process], time.monotonic_ns()

    def _look(self) -> Sighting:
        """The rank; where it never began, how its parent ended."""
        seen = self._watch.look()[self._rank]
        if self._status is not None and seen.record.state == RankState.ABSENT:
            return Sighting(replace(seen.record, wait_status=self._status), self._gone_ns)
        return seen

    def _tell(self, seen: Sighting) -> Document:
        return tell_sighting(seen, now_ns=time.monotonic_ns()) | {
            "log": tail(self._log),
            "oom_kills": oom_kills() - self._kills,
        }

    @property
    def _log(self) -> Path:
        return self._logs / log_name(self._rank)


def say(**line: Any) -> None:
    """Write a document to stdout."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    """See to the rank that stdin tells of."""
    orders = Orders(int(sys.argv[1]))
    adopt_orphans()
    asked = orders.next()
    if asked is None:
        return
    place = Place(Launch.from_json(asked["launch"]), asked["rank"], orders=orders)
    try:
        place.run(asked["address"])
    except BrokenPipeError:
        os._exit(1)  # nobody listens: what would be flushed has no reader


if __name__ == "__main__":
    main()
