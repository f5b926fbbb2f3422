"""How long does an iteration take? From one moment on all ranks to the end of the last of them.

Every iteration starts at a moment on which the ranks have agreed, so that none is early. The clock is the
monotonic one, which the processes of a machine share; on several machines the ranks start after a barrier
instead, each with its own clock.
"""

import gc
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from executor.running.recording import Recording
from executor.trials.emulation import sleep_until
from tuner.timeline import Floats

_LEAD_S = 0.002
"""From the agreement to the start."""


@dataclass(frozen=True)
class RankIterations:
    """What one rank measured."""

    start_s: Floats
    """Of every iteration, on the rank's clock [k]."""
    end_s: Floats
    moments: Floats
    """Of every event of the program [k, 3, event], see `executor.running.recording`."""
    shared_clock: bool
    """Whether all ranks ran on this machine."""

    def document(self) -> dict[str, Any]:
        """As JSON: fields of `executor.trials.rank_result.RankResult`."""
        return {
            "start_s": self.start_s.tolist(),
            "end_s": self.end_s.tolist(),
            "moments": self.moments.tolist(),
            "shared_clock": self.shared_clock,
        }


class Starter:
    """Lets all ranks start an iteration together."""

    def __init__(self) -> None:
        self.one_machine = on_one_machine()
        """Whether the clocks of all ranks are one."""

    def wait(self) -> float:
        """Return at the common start, which is given back."""
        if not self.one_machine:
            dist.barrier()
            return time.monotonic()
        moment = torch.tensor([time.monotonic() + _LEAD_S], dtype=torch.float64)
        dist.all_reduce(moment, dist.ReduceOp.MAX)
        start_s = moment.item()
        sleep_until(start_s)
        return start_s


def on_one_machine() -> bool:
    """Whether all ranks run on this machine; they ask each other together."""
    names = [""] * dist.get_world_size()
    dist.all_gather_object(names, socket.gethostname())
    return len(set(names)) == 1


def time_iterations(
    run: Callable[[int], None],
    recording: Recording,
    *,
    iterations: int,
    warm_up: int,
    settled: Callable[[], None],
    together: bool = True,
) -> RankIterations:
    """Run `run(number)` warm_up + iterations times on every rank; `settled` is called where timing begins.

    run is one iteration of a synchronous schedule, or one program of an asynchronous one. Unless `together`
    only the first starts at an agreed moment, and each of the others where the one before it ended.
    """
    starter = Starter()
    starts, ends, moments = [], [], []
    for number in range(warm_up + iterations):
        if number == warm_up:
            gc.freeze()  # looking through what was made before could take longer than an operation
            settled()
        start_s = starter.wait() if together or number == 0 else time.monotonic()
        run(number)
        end_s = time.monotonic()
        if number >= warm_up:
            starts.append(start_s)
            ends.append(end_s)
            moments.append(recording.copy())
    return RankIterations(np.array(starts), np.array(ends), np.stack(moments), starter.one_machine)
