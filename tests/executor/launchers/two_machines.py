"""A trial of two ranks on two machines, as far as one can be two: host names and clocks of their own.

`python -P -m tests.executor.launchers.two_machines SCHEDULE` prints the outcome, the hosts and whether they
share a clock. Linux namespaces do it, which need root.
"""

import ctypes
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

from executor.launchers.asking import Tell
from executor.launchers.findings import read_findings
from executor.launchers.gangs.gang import attend
from executor.launchers.gangs.place_process import PlaceProcess
from executor.launchers.launch import Launch
from executor.launchers.outcome import Outcome
from executor.trials.prepared_trial import prepare
from executor.trials.trial import run_trial
from executor.trials.trial_request import read_trial
from tests.executor.launchers.test_gangs import PlacesHere

_NEW_TIME, _NEW_NAMES = 0x80, 0x04000000
_LATER_S = 500_000


class TwoMachines:
    """A launcher; what this process starts after the first rank is on the other machine."""

    is_here = False

    def run(self, launch: Launch, tell: Tell | None = None) -> Outcome:
        """Run both ranks."""
        places = [PlaceProcess(launch.to_json(), 0, address="127.0.0.1")]
        move_to_another_machine()
        places.append(PlaceProcess(launch.to_json(), 1, address=None))
        try:
            told = attend(PlacesHere(launch, places), launch, wait=time.sleep)
        finally:
            for place in places:
                place.end()
        self.hosts = [rank["host"] for rank in told["ranks"]]
        self.shared = [json.loads(result)["shared_clock"] for result in told["agent"].get("results", [])]
        return read_findings(told, launch)


def move_to_another_machine() -> None:
    """What is started from now on has another host name, and a clock that is far ahead."""
    if ctypes.CDLL(None, use_errno=True).unshare(_NEW_TIME | _NEW_NAMES):
        raise OSError(ctypes.get_errno(), "no namespaces for time and names")
    Path("/proc/self/timens_offsets").write_text(f"monotonic {_LATER_S} 0\n", encoding="ascii")
    socket.sethostname("another")


def main(schedule: str) -> None:
    """Run one trial."""
    asked: dict[str, Any] = {"schedule": schedule, "depth": 2, "micro_batches": 4, "iterations": 4}
    launcher = TwoMachines()
    trial = run_trial(
        prepare(read_trial(asked | {"emulate": {"forward_s": 0.01, "backward_s": 0.02}})), launcher=launcher
    )
    told = trial.document() | {"hosts": launcher.hosts, "shared": launcher.shared}
    told["timeline_s"] = float(trial.measured.end_s.max()) if trial.measured else None
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
