"""Is a program a schedule: does every micro-batch pass every stage of its pipe once each way, in order?

Whether the ranks can wait for each other in a circle is the dry run's question.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tuner.errors import ScheduleError
from tuner.schedules.program import COMPUTE, Kind, Op, Program

Passage = tuple[int, int, int]
"""A micro-batch at a stage: (iteration, micro-batch, stage)."""

_ORDER = {Kind.F: 0, Kind.RECOMPUTE: 1, Kind.B: 2, Kind.I: 2, Kind.W: 3}
"""Of the operations of one micro-batch at one stage."""


@dataclass
class _Seen:
    """What a micro-batch has met at a stage, and the step in which each kind came last."""

    pipe: int
    parts: dict[Kind, dict[int, Op]] = field(default_factory=dict)
    step: dict[Kind, int] = field(default_factory=dict)


def validate(program: Program) -> None:
    """Raises ScheduleError naming the first operation that breaks a rule; reads compute operations alone."""
    _validate_shape(program)
    passages: dict[Passage, _Seen] = {}
    for rank, step, op in _compute(program):
        _validate_place(program, rank, op)
        passage = (op.iteration, op.micro_batch, op.stage)
        seen = passages.setdefault(passage, _Seen(op.pipe))
        _validate_order(seen, rank=rank, step=step, op=op)
        if op.part in seen.parts.setdefault(op.kind, {}):
            raise ScheduleError(f"rank {rank}: {op} comes twice")
        seen.parts[op.kind][op.part] = op
        seen.step[op.kind] = step
    _validate_complete(program, passages)


def _compute(program: Program) -> Iterator[tuple[int, int, Op]]:
    for rank, steps in enumerate(program.ranks):
        for number, step in enumerate(steps):
            for op in step:
                if op.kind in COMPUTE:
                    yield rank, number, op


def _validate_shape(program: Program) -> None:
    placement, depth = program.placement, program.depth
    last = int(program.columns.rank.max(initial=0))
    if last >= depth:
        raise ScheduleError(f"there are operations on rank {last}, and D = {depth}")
    if program.stages != depth * program.chunks:
        raise ScheduleError(f"each pipe has {program.stages} stages, and D·chunks = {depth * program.chunks}")
    for pipe, row in enumerate(placement.tolist()):
        for rank in range(depth):
            if row.count(rank) != program.chunks:
                raise ScheduleError(
                    f"rank {rank} holds {row.count(rank)} stages of pipe {pipe}, not {program.chunks}"
                )


def _validate_place(program: Program, rank: int, op: Op) -> None:
    sizes = (program.pipes, program.stages, program.micro_batches, program.iterations, op.parts)
    for value, size in zip((op.pipe, op.stage, op.micro_batch, op.iteration, op.part), sizes, strict=True):
        if not 0 <= value < size:
            raise ScheduleError(f"rank {rank}: {op} of iteration {op.iteration} is not of this program")
    placed = int(program.placement[op.pipe, op.stage])
    if placed != rank:
        raise ScheduleError(f"rank {rank}: {op} belongs on rank {placed}")
    if op.parts > 1 and op.kind != Kind.B:
        raise ScheduleError(f"rank {rank}: {op} is in {op.parts} parts, and only a whole backward can be")


def _validate_order(seen: _Seen, *, rank: int, step: int, op: Op) -> None:
    if seen.pipe != op.pipe:
        raise ScheduleError(f"rank {rank}: {op}, but the micro-batch is in pipe {seen.pipe} too")
    for kind, last in seen.step.items():
        if _ORDER[kind] > _ORDER[op.kind]:
            raise ScheduleError(f"rank {rank}: {op} comes after its {kind.name}")
        if _ORDER[kind] < _ORDER[op.kind] and last == step:
            raise ScheduleError(f"rank {rank}: {op} is fused with its own {kind.name}")
    if op.kind in (Kind.B, Kind.I, Kind.W) and Kind.F not in seen.step:
        raise ScheduleError(f"rank {rank}: {op} comes before its F")
    if op.kind == Kind.W and Kind.I not in seen.step:
        raise ScheduleError(f"rank {rank}: {op} comes before its I")
    if (op.kind == Kind.B and Kind.I in seen.step) or (op.kind == Kind.I and Kind.B in seen.step):
        raise ScheduleError(f"rank {rank}: {op}, but the backward is both whole and split")


def _validate_complete(program: Program, passages: dict[Passage, _Seen]) -> None:
    for iteration in range(program.iterations):
        for m in range(program.micro_batches):
            pipe = -1
            for stage in range(program.stages):
                seen = passages.get((iteration, m, stage))
                where = f"micro-batch {m} at stage {stage} in iteration {iteration}"
                if seen is None:
                    raise ScheduleError(f"{where} has no F")
                pipe = seen.pipe if pipe < 0 else pipe
                if seen.pipe != pipe:
                    op = seen.parts[Kind.F][0]
                    raise ScheduleError(f"{op}: the micro-batch came through pipe {pipe}")
                missing = _missing(seen)
                if missing:
                    raise ScheduleError(f"{where} has no {missing} (pipe {pipe})")


def _missing(seen: _Seen) -> str | None:
    split = Kind.I in seen.parts
    for kind in (Kind.F, Kind.I, Kind.W) if split else (Kind.F, Kind.B):
        found = seen.parts.get(kind)
        if not found:
            return kind.name
        sizes = {op.parts for op in found.values()}
        if len(sizes) > 1 or sizes != {len(found)}:
            return f"whole {kind.name}: its parts do not add to one"
    return None
