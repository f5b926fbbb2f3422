"""How do gloo's threads keep out of the way of computation?

Each of gloo's event loops tries to take the lock of a connection, and where it is held, because the computing
thread is just sending, asks the kernel again at once, without end. If it was woken on the core of that
thread, it spins for a whole time slice, some milliseconds, while what it waits for cannot run. As SCHED_BATCH
it does not push a thread off its core when it wakes; where the core is free it runs at once, as before.
"""

import os
from contextlib import suppress
from pathlib import Path

_NAME = "gloo_tcp_loop"
_TASKS = Path("/proc/self/task")


def let_computation_go_first() -> int:
    """Have the event loops of this process wait for a free core; call it again for groups made later.

    Gives how many there are: 0 where the system has no such rule, or torch gives its threads other names.
    """
    if not hasattr(os, "SCHED_BATCH") or not _TASKS.is_dir():
        return 0
    found = 0
    for task in _TASKS.iterdir():
        with suppress(OSError):  # it has ended, or may not be changed
            if (task / "comm").read_text(encoding="utf-8").startswith(_NAME):
                os.sched_setscheduler(int(task.name), os.SCHED_BATCH, os.sched_param(0))
                found += 1
    return found
