"""How do micro-batches pass the stages when nothing is learnt? Forwards alone, for evaluation."""

from tuner.errors import ScheduleError
from tuner.schedules.lowering import lower
from tuner.schedules.program import Integers, Kind, Op, Program, single


def forward_only(placement: Integers, *, depth: int, micro_batches: int) -> Program:
    """The lowered program of `micro_batches` forwards, the pipes of `placement` taking turns.

    Every rank follows stage + (how many the pipe had before), which no forward's input comes behind.
    """
    if micro_batches < 1:
        raise ScheduleError(f"there is nothing to evaluate in {micro_batches} micro-batches")
    pipes, stages = placement.shape
    ranks: list[list[Op]] = [[] for _ in range(depth)]
    slots = [
        (m // pipes + stage, m % pipes, stage, m) for m in range(micro_batches) for stage in range(stages)
    ]
    for _, pipe, stage, m in sorted(slots):
        ranks[int(placement[pipe, stage])].append(Op(Kind.F, pipe, stage, m))
    program = Program(
        "forward_only",
        depth,
        micro_batches,
        placement,
        [single(ops) for ops in ranks],
        chunks=stages // depth,
    )
    return lower(program)
