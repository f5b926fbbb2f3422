"""How do several programs share the same ranks and links? One program with the pipes of all.

Every rank runs its steps of all programs in one merged order, so that while one job waits for its gradient
collectives another computes (crossover synchronisation, arXiv 2103.07974). Pipes and parameter groups are
numbered through; iterations, micro-batches and stages keep the numbers of their own program. Validate the
programs before they are merged.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tuner.errors import ScheduleError
from tuner.operation_costs import Floats, OperationCosts, by_pipe, count_groups
from tuner.schedules.program import Columns, Integers, Kind, Program

Order = Sequence[Sequence[int]]
"""For every rank the number of the program that runs each of its steps."""


def merge(programs: Sequence[Program], order: Order | None = None) -> Program:
    """One lowered program of several, in a given order, or taking turns.

    In turns a rank leaves a program before it would wait for the collectives of an iteration, and goes on
    with it (UPDATEs, the next computation, the start of its collectives) after a turn of every other program.
    Raises ScheduleError if the programs have different ranks or the order is not one of all their steps.
    """
    _refuse_unequal(programs)
    turns = _turns_of_order(programs, order) if order is not None else [_turns(p) for p in programs]
    columns = _renumbered(programs)
    number = np.repeat(np.arange(len(programs)), [program.operations for program in programs])
    place = np.lexsort((columns.step, number, np.concatenate(turns), columns.rank))
    merged = Columns._make(column[place] for column in columns)
    stages = max(program.stages for program in programs)
    return Program(
        " + ".join(program.scheme for program in programs),
        programs[0].depth,
        max(program.micro_batches for program in programs),
        np.vstack([_padded(program.placement, stages, "edge") for program in programs]),
        columns=merged._replace(step=_counted(merged.step)),
        chunks=max(program.chunks for program in programs),
        iterations=max(program.iterations for program in programs),
        synchronous=all(program.synchronous for program in programs),
        lowered=True,
        jobs=np.repeat(np.arange(len(programs)), [program.pipes for program in programs]),
    )


def merge_costs(programs: Sequence[Program], costs: Sequence[OperationCosts]) -> OperationCosts:
    """The costs of the merged program; links, lanes and slow-down are those of the first."""
    stages = max(program.stages for program in programs)

    def stacked(name: str) -> Floats:
        rows = [
            _padded(by_pipe(getattr(own, name), program), stages, "constant")
            for program, own in zip(programs, costs, strict=True)
        ]
        return np.vstack(rows)

    counts = [count_groups(program) for program in programs]
    groups = [own.sync_s[:count] for count, own in zip(counts, costs, strict=True)]
    compress = [np.broadcast_to(own.compress_s, own.sync_s.shape) for own in costs]
    beside = [own.sync_s if own.sync_beside_s is None else own.sync_beside_s for own in costs]
    return replace(
        costs[0],
        forward_s=stacked("forward_s"),
        backward_s=stacked("backward_s"),
        weight_gradient_s=stacked("weight_gradient_s"),
        split_s=stacked("split_s"),
        recompute_s=stacked("recompute_s"),
        update_s=stacked("update_s"),
        message_bytes=stacked("message_bytes"),
        sync_s=np.concatenate(groups),
        sync_beside_s=np.concatenate([own[:count] for count, own in zip(counts, beside, strict=True)])
        if any(own.sync_beside_s is not None for own in costs)
        else None,
        compress_s=np.concatenate([own[: len(of)] for own, of in zip(compress, groups, strict=True)]),
        decompress_s=stacked("decompress_s"),
    )


def _refuse_unequal(programs: Sequence[Program]) -> None:
    if not programs:
        raise ScheduleError("there is nothing to merge: give at least one program")
    depths = [program.depth for program in programs]
    if len(set(depths)) > 1:
        raise ScheduleError(f"programs that share their ranks need the same depth, not {depths}")
    for program in programs:
        if not program.lowered:
            raise ScheduleError(
                f"{program.scheme} has no messages and collectives yet: lower it before merging"
            )


def _turns(program: Program) -> Integers:
    """The turn of each row: one begins where UPDATEs begin, which wait for collectives."""
    columns = program.columns
    update = columns.kind == Kind.UPDATE
    behind = np.concatenate([[False], update[:-1] & (columns.rank[1:] == columns.rank[:-1])])
    begun = np.cumsum(update & ~behind)
    before_rank = np.append(0, begun)[np.searchsorted(columns.rank, np.arange(program.depth))]
    return np.asarray(begun - before_rank[columns.rank])


def _turns_of_order(programs: Sequence[Program], order: Order) -> list[Integers]:
    """The place of each row's step in the order of its rank, for every program."""
    if len(order) != programs[0].depth:
        raise ScheduleError(f"the order has {len(order)} ranks, and the programs {programs[0].depth}")
    turns = [np.zeros(program.operations, dtype=np.int64) for program in programs]
    for rank, numbers in enumerate(order):
        unknown = set(numbers) - set(range(len(programs)))
        if unknown:
            raise ScheduleError(f"the order of rank {rank} names program {min(unknown)} of {len(programs)}")
        for number, program in enumerate(programs):
            rows = np.flatnonzero(program.columns.rank == rank)
            steps, step = np.unique(program.columns.step[rows], return_inverse=True)
            places = np.flatnonzero(np.asarray(numbers) == number)
            if len(places) != len(steps):
                raise ScheduleError(
                    f"the order of rank {rank} has {len(places)} steps of program {number}, "
                    f"which has {len(steps)}"
                )
            turns[number][rows] = places[step]
    return turns


def _renumbered(programs: Sequence[Program]) -> Columns:
    """All rows, with pipes, groups and steps numbered through."""
    parts: list[Columns] = []
    pipes = groups = steps = 0
    for program in programs:
        columns = program.columns
        parts.append(
            columns._replace(
                pipe=columns.pipe + pipes,
                group=np.where(columns.group < 0, columns.group, columns.group + groups),
                step=columns.step + steps,
            )
        )
        pipes += program.pipes
        groups += count_groups(program)
        steps += int(columns.step.max(initial=0)) + 1
    return Columns._make(np.concatenate(column) for column in zip(*parts, strict=True))


def _counted(step: Integers) -> Integers:
    """The same steps, counted in their new order."""
    return np.cumsum(np.concatenate([[False], step[1:] != step[:-1]]))


def _padded(values: Floats | Integers, stages: int, mode: Literal["edge", "constant"]) -> NDArray[Any]:
    """Up to `stages` columns: the last rank again, where nothing runs, or nothing."""
    return np.pad(values, ((0, 0), (0, stages - values.shape[1])), mode=mode)
