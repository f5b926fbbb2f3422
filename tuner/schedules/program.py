"""What does each rank do, in which order? One form that is validated, lowered, simulated, run and drawn."""

from collections.abc import Sequence
from enum import IntEnum
from functools import cached_property
from itertools import chain
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Kind(IntEnum):
    """What an operation does; the numbers are the columns' codes."""

    F = 0
    """Forward of one micro-batch."""
    B = 1
    """Whole backward of one micro-batch, or of a part of it."""
    I = 2  # noqa: E741
    """Input gradient: what the previous stage waits for."""
    W = 3
    """Weight gradient: may wait."""
    RECOMPUTE = 4
    SEND_F = 5
    """Start sending an activation to the next stage."""
    RECV_F = 6
    """Post the receive of an activation from the previous stage."""
    SEND_B = 7
    """Start sending an input gradient to the previous stage."""
    RECV_B = 8
    """Post the receive of an input gradient from the next stage."""
    SYNC = 9
    """Start the collective of a parameter group's gradients; it runs when its last member arrives."""
    UPDATE = 10
    """Optimizer step of a stage, after its collectives; creates a weight version."""


COMPUTE = frozenset({Kind.F, Kind.B, Kind.I, Kind.W, Kind.RECOMPUTE})
SENDS = frozenset({Kind.SEND_F, Kind.SEND_B})
RECEIVES = frozenset({Kind.RECV_F, Kind.RECV_B})


class Collective(IntEnum):
    """What a SYNC does with the gradients of its group."""

    ALL_REDUCE = 0
    REDUCE_SCATTER = 1
    ALL_GATHER = 2
    """Of the updated weights, after the UPDATE of a sharded optimizer."""


class Op(NamedTuple):
    """One operation; `stage` is the one that computes, sends or receives.

    `part` of `parts` splits a backward (halving) or a collective (buckets). `version` is the weight version
    that is read, or that an UPDATE creates. For a SYNC `group` is the stage, or the number of stages plus the
    tied group.
    """

    kind: Kind
    pipe: int
    stage: int
    micro_batch: int
    part: int = 0
    parts: int = 1
    version: int = 0
    iteration: int = 0
    group: int = -1
    collective: Collective = Collective.ALL_REDUCE

    def __str__(self) -> str:
        if self.kind == Kind.SYNC:
            return f"SYNC(group {self.group}, bucket {self.part + 1}/{self.parts})"
        if self.kind == Kind.UPDATE:
            return f"UPDATE(pipe {self.pipe}, stage {self.stage})"
        half = f".{self.part}" if self.parts > 1 else ""
        return f"{self.stage}{self.kind.name}{self.micro_batch}{half} (pipe {self.pipe})"


_KINDS, _COLLECTIVES = list(Kind), list(Collective)

Step = tuple[Op, ...]
"""One operation, or a fused pair: it starts when all inputs are there and has one end."""


class Columns(NamedTuple):
    """The operations of all ranks one after the other, a column for each field; `step` numbers the steps."""

    kind: Integers
    pipe: Integers
    stage: Integers
    micro_batch: Integers
    part: Integers
    parts: Integers
    version: Integers
    iteration: Integers
    group: Integers
    collective: Integers
    rank: Integers
    step: Integers


class Program:
    """The operations of every rank, in order.

    placement[pipe, stage] is the rank that holds a stage; a group of `depth` ranks runs `micro_batches` per
    iteration, and every pipe holds a copy of the same weights. A program is kept as columns, whatever its
    length; its operations become objects when `ranks` is read.
    """

    def __init__(  # noqa: PLR0917 (a program is its first five fields)
        self,
        scheme: str,
        depth: int,
        micro_batches: int,
        placement: Integers,
        ranks: Sequence[Sequence[Step]] | None = None,
        *,
        columns: Columns | None = None,
        chunks: int = 1,
        iterations: int = 1,
        synchronous: bool = True,
        updates: Literal["iteration", "micro_batch"] = "iteration",
        lowered: bool = False,
        jobs: Integers | None = None,
    ) -> None:
        """Give `ranks` or `columns`; `updates` says what an optimizer step follows.

        `jobs` numbers the job that each pipe belongs to, where several share the ranks.
        """
        if columns is None:
            columns = pack(ranks or ())
        self.scheme = scheme
        self.depth = depth
        self.micro_batches = micro_batches
        self.placement = placement
        self.chunks = chunks
        self.iterations = iterations
        self.synchronous = synchronous
        self.updates = updates
        self.lowered = lowered
        self.jobs = np.zeros(len(placement), dtype=np.int64) if jobs is None else jobs
        self.columns = columns

    @property
    def pipes(self) -> int:
        """Pipes of the group (2f for Chimera)."""
        return int(self.placement.shape[0])

    @property
    def stages(self) -> int:
        """Stages of each pipe."""
        return int(self.placement.shape[1])

    @property
    def operations(self) -> int:
        """Operations of all ranks."""
        return len(self.columns.kind)

    @cached_property
    def ranks(self) -> tuple[tuple[Step, ...], ...]:
        """The steps of every rank, as objects."""
        return unpack(self.columns, self.depth)

    def lowered_to(self, columns: Columns) -> "Program":
        """The program with messages, collectives and updates in its columns."""
        return Program(
            self.scheme,
            self.depth,
            self.micro_batches,
            self.placement,
            columns=columns,
            chunks=self.chunks,
            iterations=self.iterations,
            synchronous=self.synchronous,
            updates=self.updates,
            lowered=True,
            jobs=self.jobs,
        )


def pack(ranks: Sequence[Sequence[Step]]) -> Columns:
    """Steps as integer columns, rank after rank."""
    sizes = [[len(step) for step in steps] for steps in ranks]
    flat = list(chain.from_iterable(chain.from_iterable(ranks)))
    table = np.fromiter(chain.from_iterable(flat), np.int64, len(flat) * len(Op._fields))
    lengths = np.array(list(chain.from_iterable(sizes)), dtype=np.int64)
    rank = np.repeat(np.arange(len(ranks)), [sum(row) for row in sizes])
    step = np.repeat(np.arange(len(lengths)), lengths)
    fields = np.ascontiguousarray(table.reshape(len(flat), len(Op._fields)).T)
    return Columns._make([*fields, rank, step])


def unpack(columns: Columns, depth: int) -> tuple[tuple[Step, ...], ...]:
    """Columns as steps of every rank."""
    ranks: list[list[Step]] = [[] for _ in range(depth)]
    last = -1
    for kind, *numbers, collective, rank, step in zip(*(column.tolist() for column in columns), strict=True):
        op = Op._make([_KINDS[kind], *numbers, _COLLECTIVES[collective]])
        if step == last:
            ranks[rank][-1] = (*ranks[rank][-1], op)
        else:
            ranks[rank].append((op,))
        last = step
    return tuple(tuple(steps) for steps in ranks)


def single(ops: Sequence[Op]) -> tuple[Step, ...]:
    """Operations as steps of their own."""
    return tuple((op,) for op in ops)
