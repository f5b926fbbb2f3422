"""Do gloo's event loops leave the cores to computation?"""

import os
from pathlib import Path

from executor.transport.loop_threads import let_computation_go_first
from tests.executor.processes import run_ranks


def test_the_loops_of_a_rank_do_not_push_computation_aside() -> None:
    """All wait for a free core, the thread that computes is as it was; a second call changes nothing."""
    assert run_ranks(2, _policies) == [(True, {os.SCHED_BATCH}, os.SCHED_OTHER)] * 2


def test_without_process_groups_there_is_nothing_to_do() -> None:
    """In a process that talks to nobody."""
    assert let_computation_go_first() == 0


def _policies(_rank: int, _world_size: int) -> tuple[bool, set[int], int]:
    found = let_computation_go_first()
    same = found == let_computation_go_first() > 0
    tasks = [task for task in Path("/proc/self/task").iterdir() if "gloo_tcp" in (task / "comm").read_text()]
    return same, {os.sched_getscheduler(int(task.name)) for task in tasks}, os.sched_getscheduler(0)
