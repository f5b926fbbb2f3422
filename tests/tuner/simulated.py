"""What do the tests of timelines simulate? A schedule under plain costs, or a drawing of one."""

from typing import Any

from tuner.simulation import simulate
from tuner.simulation_request import prepare, read_simulation
from tuner.timeline import Timeline


def make_timeline(schedule: str, depth: int, micro_batches: int, **options: Any) -> Timeline:
    """The timeline of a schedule; options as for `chimera simulate`."""
    request = read_simulation(
        {"schedule": schedule, "depth": depth, "micro_batches": micro_batches} | options
    )
    program, costs = prepare(request)
    return simulate(program, costs)
